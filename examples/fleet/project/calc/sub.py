"""Return the difference of two numbers."""


def sub(a, b):
    return b - a
