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

from gate.rows import Endings, read_tests
from support.promise_catalogue import ROWS

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

NOT_UNIT = """
import os, socket, subprocess, sys
import pytest

def popen(): subprocess.run([sys.executable, "-V"])
def spawn(): os.waitpid(os.posix_spawn(sys.executable, [sys.executable, "-V"], {}), 0)
def fork(): os.fork() or os._exit(0)
def listen(): socket.create_server(("127.0.0.1", 0)).close()

@pytest.mark.parametrize("act", [popen, spawn, fork, listen])
def test_acts(act):
    act()

def test_hides_it():
    try:
        popen()
    except Exception:
        pass

@pytest.fixture
def process():
    popen()

def test_acts_in_a_fixture(process):
    pass

def test_is_pure():
    pass

@pytest.mark.process
@pytest.mark.parametrize("act", [popen, spawn, listen])
def test_says_that_it_acts(act):
    act()
"""

PROMISES = """
import pytest

@pytest.mark.promise("B02")
@pytest.mark.parametrize("value", [pytest.param(1, marks=pytest.mark.promise("G15", "Z99")), 2])
def test_fails(value):
    assert value > 5

@pytest.mark.promise("D11")
def test_passes():
    pass
"""


def pytest_run(
    folder: Path, test: str, preexec: Callable[[], None] | None = None, *, name: str = "test_it.py", marked: str = ""
) -> subprocess.CompletedProcess[str]:
    shutil.copy(CONFTEST, folder / "conftest.py")
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(test)
    argv = [sys.executable, "-m", "pytest", "-q", "-n", "1", "-p", "no:cacheprovider", "--rootdir", str(folder)]
    argv += ["--basetemp", str(folder / "temporary")]  # and no clearing up after other runs
    argv += ["--junitxml", str(folder / "tests.xml")]
    argv += ["-o", f"pythonpath={CONFTEST.parent}", "-W", "ignore::pytest.PytestUnknownMarkWarning", "-m", marked]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PYTHON"))}
    return subprocess.run(
        [*argv, name], cwd=folder, env=env, capture_output=True, text=True, timeout=110, preexec_fn=preexec
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


def test_a_unit_test_that_starts_a_process_or_opens_a_socket_fails(tmp_path: Path) -> None:
    done = pytest_run(tmp_path, NOT_UNIT, name="core/test_it.py")
    assert "5 failed, 4 passed, 1 error" in done.stdout, done.stdout + done.stderr
    for event in ("subprocess.Popen", "os.posix_spawn", "os.fork", "socket.bind"):
        assert f"{event} in a unit test; mark the test `process`" in done.stdout


def test_unit_tests_are_chosen_by_folder_without_those_marked_as_processes(tmp_path: Path) -> None:
    done = pytest_run(tmp_path, NOT_UNIT, name="core/test_it.py", marked="unit")
    assert "5 failed, 1 passed, 1 error" in done.stdout, done.stdout + done.stderr
    done = pytest_run(tmp_path, NOT_UNIT, name="runtime/test_it.py")
    assert "10 passed" in done.stdout, done.stdout + done.stderr


def test_a_failed_test_prints_the_text_of_its_promises_and_the_gate_reads_those_of_all_tests(tmp_path: Path) -> None:
    done = pytest_run(tmp_path, PROMISES)
    assert "2 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert done.stdout.count("B02: A compaction during a run -> the run ends as aborted and is saved\n    P22: ") == 2
    assert done.stdout.count(f"G15: {ROWS['B07'].fault} -> ") == 1
    assert "Z99" in done.stdout and "D11" not in done.stdout
    ends = {"B02": Endings(failed=2), "B07": Endings(failed=1), "Z99": Endings(failed=1), "D11": Endings(passed=1)}
    assert read_tests(tmp_path / "tests.xml") == ends
