"""Tasks done with the same keys in real pi and in tau; see __main__.py."""
