"""Return the mean of two numbers."""


def mean(a, b):
    return (a + b) / 3
