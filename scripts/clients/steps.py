"""Reports of the steps of a client: one JSON line per step, on stdout.

The programs that drive Python clients import this module, each in the environment of its client. So it uses only the
standard library.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FILE = "hello.txt"
CONTENT = "written for the clients"
READ = f"read {FILE}"
ANSWER = f"It says: {CONTENT}"
NEVER_END = "never end"
COMMAND = "echo from-the-shell"
OUTPUT = "from-the-shell"
WITHIN = 20.0  # seconds; timeout of everything that a client waits for


@contextmanager
def step(name: str) -> Iterator[None]:
    """Report the step: an exception is its problem, and does not end the program."""
    try:
        yield
    except Exception as error:
        report(name, f"{type(error).__name__}: {error}")
    else:
        report(name)


def report(name: str, problem: str = "") -> None:
    print(json.dumps({"step": name, "problem": problem}), flush=True)


def expect(found: object, wanted: object) -> None:
    if found != wanted:
        raise AssertionError(f"{found!r} instead of {wanted!r}")


def lay_out(work: Path) -> None:
    """Create the working folder of the agent."""
    work.mkdir(parents=True)
    (work / FILE).write_text(f"{CONTENT}\n")
