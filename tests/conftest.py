"""For all tests: examples of property tests are the same on every machine, and take the time they take."""

from hypothesis import HealthCheck, settings

settings.register_profile("tau", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tau")
