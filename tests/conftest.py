"""For all tests: what they must not depend on.

Examples of property tests are the same on every machine, and take the time they take. Signals have their default
actions. Reports can be sent to the process that prints them. Unit tests (`-m unit`) start no process. A failed test
prints the promises that it holds.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies

from support.promise_catalogue import described
from support.signals import restore_signals
from support.unit_tests import FOLDERS, Guard, mark_unit_tests

settings.register_profile("tau", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tau")
guard = Guard()
HERE = Path(__file__).parent


def pytest_configure() -> None:
    restore_signals()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """To import the files of all other tests would take as long as to run the unit tests."""
    outside = collection_path.parent == HERE and collection_path.name not in FOLDERS
    return True if outside and config.option.markexpr == "unit" else None


@settings(max_examples=1, database=None)
@given(strategies.none())
def run_hypothesis(_: None) -> None:
    """The first property test of a process registers the random numbers of Hypothesis."""


def pytest_collection_finish() -> None:
    """Thousands of tests and all modules stay: the garbage collector need not look at them again and again."""
    run_hypothesis()  # with Python 3.14 it does not find, and warns about, what refers to them if that is frozen
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_unit_tests(items, HERE)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    with guard.active() if item.get_closest_marker("unit") else nullcontext():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    with guard.active() if item.get_closest_marker("unit") else nullcontext():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What a failed test promises, below its traceback; and in reports for programs (--junitxml), for all tests."""
    report = yield
    rows = dict.fromkeys(str(row) for mark in item.iter_markers("promise") for row in mark.args)
    if rows and report.when == "teardown":
        report.user_properties = [*report.user_properties, *(("promise", row) for row in rows)]
    if report.failed and rows:
        report.sections.append(("Promises of this test (docs/reliability.md)", "\n".join(map(described, rows))))
    return report


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
