"""Sessions of a million entries and of a gigabyte, opened by the real program.

    python tests/long/large_sessions.py

What a session costs in memory when it is opened and asked about may depend on the
number of its entries, and then by little, but not on what is said in them.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.rpc_process import Agent

MIB = 1 << 20
TIME = "2026-01-01T00:00:00.000Z"
SIZES = ((1_000_000, 20), (10_000, 100_000))  # entries, and characters in each
BYTES_OF_AN_ENTRY = 128
ROOM = 16 * MIB
USAGE = {"input": 5, "output": 5, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 10}
COST = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
ANSWER = {"api": "x", "provider": "x", "model": "m", "usage": {**USAGE, "cost": COST}, "stopReason": "stop"}


class Opened(NamedTuple):
    size: int  # of the file
    seconds: float
    extra: int  # bytes of memory, at most


def built(path: Path, entries: int, characters: int) -> None:
    """A conversation of two, without a compaction."""
    content = [{"type": "text", "text": "x" * characters}]
    question = json.dumps({"role": "user", "content": content, "timestamp": 1})
    answer = json.dumps({"role": "assistant", "content": content, "timestamp": 1, **ANSWER})
    head = f'"timestamp":"{TIME}","message":'
    with path.open("w") as file:
        file.write(json.dumps({"type": "session", "version": 3, "id": "x", "timestamp": TIME, "cwd": ""}) + "\n")
        for at in range(entries):
            parent = f'"{at - 1:08x}"' if at else "null"
            said = answer if at % 2 else question
            file.write(f'{{"type":"message","id":"{at:08x}","parentId":{parent},{head}{said}}}\n')


def opened(folder: Path, entries: int, characters: int) -> Opened:
    path = folder / "large.jsonl"
    built(path, entries, characters)
    with Agent(folder) as agent:
        agent.prompt("warm")
        before, began = agent.memory, time.monotonic()
        agent.get("switch_session", sessionPath=str(path))
        seconds = time.monotonic() - began
        assert agent.get("get_state")["messageCount"] == entries
        assert agent.get("get_session_stats")["totalMessages"] == entries
        assert agent.get("get_last_assistant_text")["text"] == "x" * characters
        found = Opened(path.stat().st_size, seconds, agent.memory - before)
    path.unlink()
    return found


def main() -> int:
    wrong = 0
    for entries, characters in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            found = opened(Path(folder), entries, characters)
        allowed = ROOM + entries * BYTES_OF_AN_ENTRY
        print(
            f"{entries:,} entries, {found.size / 1e6:,.0f} MB: opened in {found.seconds:.1f} s, "
            f"{found.extra / MIB:.0f} MiB of memory, of at most {allowed / MIB:.0f}"
        )
        wrong += found.extra > allowed
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
