"""Return the smaller of two numbers."""


def smaller(a, b):
    return max(a, b)
