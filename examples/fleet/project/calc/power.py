"""Return the first number to the power of the second."""


def power(a, b):
    return a * b
