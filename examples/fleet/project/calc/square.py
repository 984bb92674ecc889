"""Return the square of the first number."""


def square(a, b):
    return a + a
