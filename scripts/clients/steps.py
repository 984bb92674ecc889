"""How a run tells what became of its steps: a JSON line for each, on stdout.

Imported by the runs in Python, each of which lives in the environment of its
client; so nothing but the standard library may be used here.
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
WITHIN = 20.0  # seconds for whatever a client waits for


@contextmanager
def step(name: str) -> Iterator[None]:
    """Whatever goes wrong in here is told, and the next step is tried."""
    try:
        yield
    except Exception as error:
        tell(name, f"{type(error).__name__}: {error}")
    else:
        tell(name)


def tell(name: str, trouble: str = "") -> None:
    print(json.dumps({"step": name, "trouble": trouble}), flush=True)


def expect(found: object, wanted: object) -> None:
    if found != wanted:
        raise AssertionError(f"{found!r} instead of {wanted!r}")


def lay_out(work: Path) -> None:
    """The folder that the agent works in."""
    work.mkdir(parents=True)
    (work / FILE).write_text(f"{CONTENT}\n")
