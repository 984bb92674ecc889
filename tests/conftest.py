"""For all tests: what they must not depend on.

Examples of property tests are the same on every machine, and take the time they take. Signals have their default
actions. Reports can be sent to the process that prints them.
"""

from __future__ import annotations

import signal
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("tau", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tau")


def pytest_configure() -> None:
    """A shell starts background jobs with SIGINT ignored, nohup with SIGHUP ignored, and children inherit that."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """pytest-xdist sends reports as UTF-8; a lone surrogate in one ended the worker, and with it the whole run."""
    return escaped((yield))


def escaped(data: Any) -> Any:
    """The same with every lone surrogate written as \\udXXX."""
    if isinstance(data, str):
        return data.encode("utf-8", "backslashreplace").decode()
    if isinstance(data, dict):
        return {escaped(key): escaped(value) for key, value in data.items()}
    return type(data)(map(escaped, data)) if type(data) in (list, tuple) else data
