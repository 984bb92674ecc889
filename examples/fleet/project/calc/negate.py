"""Return the first number with the other sign."""


def negate(a, b):
    return a
