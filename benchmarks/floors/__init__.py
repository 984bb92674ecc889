"""Programs that do the least that a program of this kind could do. They run beside tau."""
