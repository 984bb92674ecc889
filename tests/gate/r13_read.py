"""R13: five lines of a file of 10 GB are read without the rest of it."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from gate.figure import Figure
from support.rpc_process import Agent, Json, texts

SIZE = 10 * 1024**3
READS = 30
LINES = "".join(f"line {number}\n" for number in range(1, 6))


def measure(scale: float, seed: int) -> list[Figure]:
    count = max(3, round(READS * scale))
    with tempfile.TemporaryDirectory(prefix="tau-gate-") as folder:
        taken, extra, wrong = reads(count, Path(folder))
    return [
        Figure("R13", "memory over base to read 5 lines of a 10 GB file", count, round(extra / 1024**2, 1), 32, "MiB"),
        Figure("R13", "time to read 5 lines of a 10 GB file, p50", count, round(statistics.median(taken), 3), 0.2, "s"),
        Figure("R13", "other lines than those asked for", count, wrong, 0),
    ]


def reads(count: int, folder: Path) -> tuple[list[float], int, int]:
    """How long each took, how much the most memory ever was above what it was before, how often it was not the five."""
    (folder / "work").mkdir()
    for name, size in (("small", 0), ("big", SIZE)):
        with (folder / "work" / name).open("w") as file:
            file.write(LINES)
            file.truncate(max(size, len(LINES)))  # a hole: it takes no room on the disk, and is read as any bytes are
    answers = [answer for name in ("small", *["big"] * count) for answer in (reading(name), {"text": "ok"})]
    with Agent(folder, *answers) as agent:
        agent.prompt("go")
        Path(f"/proc/{agent.pid}/clear_refs").write_text("5")  # from here on: what there is now counts as the most
        before, taken, wrong = agent.memory, [], 0
        for _ in range(count):
            began = time.monotonic()
            events = agent.prompt("go")  # all of it, for the parts are told at once
            taken.append(time.monotonic() - began)
            wrong += not texts(events, "toolResult")[0].startswith(LINES)
        return taken, agent.memory - before, wrong


def reading(name: str) -> Json:
    return {"blocks": [{"tool": "read", "arguments": {"path": name, "limit": 5}}]}
