"""The session picker with 5,000 sessions and the tree with 20,000 entries: how long they take, and a key in the tree.

    python tests/long/big_lists.py

Prints medians of the time on the clock and of the processor time of the program. The goals: first rows of the picker
within 100 ms, the tree within 150 ms, a key in it within 16 ms; on a machine with other work, the processor time tells.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.interface import Interface
from tau.store.sessions import folder_for

SESSIONS, ENTRIES, TIMES = 5_000, 20_000, 7
STAMP = "2026-01-01T00:00:00.000Z"
ESCAPE = b"\x1b[27u"
TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")


def write_session(folder: Path, number: int, entries: int) -> Path:
    """A session whose prompts and answers are named by numbers."""
    place = folder_for(str(folder / "work"), folder / "agent")
    place.mkdir(parents=True, exist_ok=True)
    lines: list[Any] = [
        {"type": "session", "version": 3, "id": f"s{number}", "timestamp": STAMP, "cwd": str(folder / "work")}
    ]
    parent = None
    for at in range(entries):
        id = f"{number:05}{at:05}"
        message = {"role": "user", "content": f"prompt {number} {at}", "timestamp": 0}
        lines.append({"type": "message", "id": id, "parentId": parent, "timestamp": STAMP, "message": message})
        parent = id
    path = place / f"2026-01-01T00-00-00-000Z_s{number}.jsonl"
    path.write_text("".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines))
    age = time.time() - 60 * (number + 1)
    os.utime(path, (age, age))
    return path


def processor_ms(tau: Interface) -> float:
    fields = Path(f"/proc/{tau.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_MS


def measure(tau: Interface, act: Callable[[], None], shown: bytes) -> tuple[float, float]:
    """Milliseconds of the clock and of the processor until the output has the bytes."""
    tau.wait_quiet(0.5)
    before, started = processor_ms(tau), time.perf_counter()
    act()
    tau.wait_new(shown)
    return (time.perf_counter() - started) * 1000, processor_ms(tau) - before


def told(name: str, found: list[tuple[float, float]], goal_ms: float) -> None:
    clock, processor = median(one for one, _ in found), median(one for _, one in found)
    verdict = "holds" if clock <= goal_ms else "over"
    print(f"{name}: {clock:.0f} ms, processor {processor:.0f} ms (goal {goal_ms:.0f} ms: {verdict})", flush=True)


def picker(folder: Path) -> None:
    for number in range(SESSIONS):
        write_session(folder, number, 2)
    with Interface(folder) as tau:
        tau.start().wait_quiet(1.0)
        opened = []
        for _ in range(TIMES):
            tau.type("/resume")
            tau.wait_quiet(0.3)
            opened.append(measure(tau, lambda: tau.press("enter"), b"prompt 0 0"))
            tau.type(ESCAPE)
        told(f"picker of {SESSIONS:,} sessions, first rows", opened, 100)


def tree(folder: Path) -> None:
    path = write_session(folder, 0, ENTRIES)
    with Interface(folder, "--session", str(path)) as tau:
        tau.start().wait_quiet(1.0)
        opened, keys = [], []
        for _ in range(TIMES):
            tau.type("/tree")
            tau.wait_quiet(0.3)
            opened.append(measure(tau, lambda: tau.press("enter"), b"Tree:"))
            keys.append(measure(tau, lambda: tau.press("up"), b"\x1b[?2026l"))
            tau.type(ESCAPE)
        told(f"tree of {ENTRIES:,} entries", opened, 150)
        told("a key in it", keys, 16)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="tau-lists-") as name:
        for number, job in enumerate((picker, tree)):
            folder = Path(name) / str(number)
            folder.mkdir()
            job(folder)


if __name__ == "__main__":
    main()
