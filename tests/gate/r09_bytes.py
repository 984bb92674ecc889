"""R9: an answer of 300 KB in 3,000 pieces, as it comes out. With deltas only it is a few times the answer.

Where every update has the whole message in it, as clients of pi expect, it is the
square of the answer, so updates merge: what counts there is how much it is in a second.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from gate.figure import Figure
from support.rpc_process import Agent, joined_deltas

MIB = 1 << 20
PIECES, PIECE = 3_000, 100
COMPACT = "1.5"
RATE = 12 * MIB  # bytes a second: that is RATE of rpc/backlog.py, and some more for the last updates, which do not wait


def measure(scale: float, seed: int) -> list[Figure]:
    count = PIECES if scale >= 1 else 1_000
    size = PIECES * PIECE // count
    with tempfile.TemporaryDirectory(prefix="tau-gate-") as scratch:
        folder = Path(scratch).resolve()
        compact, _ = spoken(folder / "compact", count, size, ["--dialect", COMPACT])
        full, seconds = spoken(folder / "full", count, size, [])
    answer = count * size
    return [
        Figure("R9", "bytes on stdout for a byte of answer, deltas only", count, compact / answer, 10, "x"),
        Figure("R9", "MiB a second on stdout, with whole messages", count, full / MIB / seconds, RATE / MIB, "MiB/s"),
    ]


def spoken(folder: Path, count: int, size: int, args: list[str]) -> tuple[int, float]:
    """Bytes that came out from the prompt to its end, and the seconds it took."""
    folder.mkdir()
    pieces = [f"{at:08d}".ljust(size, "x") for at in range(count)]
    with Agent(folder, {"blocks": [{"text": pieces}], "delayMs": 1}, args=args) as agent:
        agent.get("get_state")
        before, started = agent.bytes_read, time.monotonic()
        agent.get("prompt", message="go")
        events = agent.until("agent_end")
        seconds = time.monotonic() - started
        assert joined_deltas(events) == "".join(pieces), "the deltas do not add up to the answer"
        return agent.bytes_read - before, seconds
