"""One goal after another, each in a process of its own: what it measured, or why it did not.

A process of its own has a time limit that nothing in it can get round, and memory
that no goal before it has used.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import redirect_stdout, suppress
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from gate.figure import Figure

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SECONDS = 900.0  # for a goal at a scale of 1, unless its module has a `SECONDS` of its own
LEAST = 240.0  # so long even a tenth may take, on a machine with much else to do
SHOWN = 4000  # characters of what a goal said before it failed


class Run(NamedTuple):
    """What came of one module: what it `said` on stderr, and why there are no figures if there are none."""

    name: str
    figures: list[Figure]
    seconds: float
    said: str
    failure: str = ""

    @property
    def goal(self) -> str:
        return goal(self.name)

    @property
    def holds(self) -> bool:
        return not self.failure and all(figure.holds for figure in self.figures)


def names() -> list[str]:
    """The modules of all goals, in the order of their numbers."""
    return sorted((file.stem for file in HERE.glob("r[0-9]*.py")), key=lambda name: (int(goal(name)[1:]), name))


def goal(name: str) -> str:
    """r01_kills -> R1"""
    found = re.match(r"r0*(\d+)", name)
    assert found, name
    return f"R{found[1]}"


def run(name: str, scale: float, seed: int) -> Run:
    argv = [sys.executable, "-m", "tests.gate", "--inside", name, "--scale", str(scale), "--seed", str(seed)]
    started = time.monotonic()
    process = subprocess.Popen(
        argv,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    limit = _limit(name, scale)
    try:
        out, err = process.communicate(timeout=limit)
        failure = "" if process.returncode == 0 else f"ended with {process.returncode}"
    except subprocess.TimeoutExpired as late:
        out, err, failure = late.stdout or b"", late.stderr or b"", f"not done within {limit:.0f} s"
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
    seconds = time.monotonic() - started
    said = err.decode(errors="replace")[-SHOWN:]
    figures = [] if failure else [Figure(*values) for values in json.loads(out.splitlines()[-1])]
    return Run(name, figures, seconds, said, failure or ("" if figures else "measured nothing"))


def inside(name: str, scale: float, seed: int) -> None:
    """In the process of one goal: measure, and say so on the last line of stdout."""
    with redirect_stdout(sys.stderr):
        figures = import_module(f"gate.{name}").measure(scale, seed)
    print(json.dumps(figures))


def _limit(name: str, scale: float) -> float:
    """Read from the text of the module: what it imports must not count here."""
    found = re.search(r"^SECONDS = ([\d_.]+)", (HERE / f"{name}.py").read_text(), re.MULTILINE)
    return max(LEAST, (float(found[1]) if found else SECONDS) * scale)
