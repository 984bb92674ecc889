"""Return the quotient of two numbers."""


def div(a, b):
    return a // b
