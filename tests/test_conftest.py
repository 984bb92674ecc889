"""What every test can rely on, tried in test runs of their own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

CONFTEST = Path(__file__).with_name("conftest.py")

SURROGATES = r"""
import pytest, warnings

def test_fails_in_its_message():
    assert "\ud800" == "other"

def test_fails_after_it_printed():
    print("out \udcff")
    raise ValueError("\udfff", {"\ud83d": 1})

@pytest.mark.parametrize("value", ["\ud801"])
def test_fails_by_its_value(value):
    assert not value, f"{value} is there"

def test_passes():
    pass
"""

SIGNALS = """
import signal, subprocess, sys

def test_signals():
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL
    ignored = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    assert subprocess.run([sys.executable, "-c", ignored], capture_output=True, text=True).stdout == "True\\n"
"""


def pytest_run(folder: Path, test: str, preexec: Callable[[], None] | None = None) -> subprocess.CompletedProcess[str]:
    shutil.copy(CONFTEST, folder / "conftest.py")
    (folder / "test_it.py").write_text(test)
    argv = [sys.executable, "-m", "pytest", "-q", "-n", "1", "-p", "no:cacheprovider", "--rootdir", str(folder)]
    argv += ["--basetemp", str(folder / "temporary")]  # and no clearing up after other runs
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PYTHON"))}
    return subprocess.run(
        [*argv, "test_it.py"], cwd=folder, env=env, capture_output=True, text=True, timeout=110, preexec_fn=preexec
    )


def test_a_failure_with_lone_surrogates_is_reported_and_ends_no_worker(tmp_path: Path) -> None:
    done = pytest_run(tmp_path, SURROGATES)
    assert "3 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "ud800" in done.stdout and "out \\udcff" in done.stdout and "INTERNALERROR" not in done.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_that_the_runner_inherited_ignored_has_its_default_action_in_tests(
    tmp_path: Path, number: signal.Signals
) -> None:
    def ignore() -> None:
        signal.signal(number, signal.SIG_IGN)

    done = pytest_run(tmp_path, SIGNALS, ignore)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
