"""Return the sum of two numbers."""


def add(a, b):
    return a - b
