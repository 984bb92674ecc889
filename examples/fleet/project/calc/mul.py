"""Return the product of two numbers."""


def mul(a, b):
    return a + b
