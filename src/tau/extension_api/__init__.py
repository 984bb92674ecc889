"""Other people's code: what it may take part in, and the process it runs in."""
