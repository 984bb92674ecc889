"""Return whether two numbers are equal."""


def equal(a, b):
    return a != b
