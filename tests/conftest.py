"""For all tests: examples of property tests are the same on every machine, and take the time they take."""

from hypothesis import settings

settings.register_profile("tau", deadline=None, derandomize=True)
settings.load_profile("tau")
