"""Return the larger of two numbers."""


def larger(a, b):
    return min(a, b)
