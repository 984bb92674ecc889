"""Return the remainder of a division."""


def mod(a, b):
    return a / b
