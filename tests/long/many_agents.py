"""Two hundred agents in one process, each with a run with tools: all right, small, and gone when they are closed.

python tests/long/many_agents.py [HOW MANY]
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import tempfile
import time
from pathlib import Path

import tau

SCRIPT = [
    {"blocks": [{"tool": "bash", "arguments": {"command": "echo $((40 + 2))"}}]},
    {"blocks": [{"tool": "add", "arguments": {"a": 1, "b": 2}}]},
    {"text": "done"},
]
LIMIT = 3 * 1024  # kilobytes for each agent over the first


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def kilobytes() -> int:
    gc.collect()
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


async def worked(folder: Path, number: int) -> tau.Agent:
    cwd = folder / str(number)
    cwd.mkdir()
    agent = await tau.open(cwd, agent_dir=folder / "agent", tools=["bash", add], script=SCRIPT)
    result = await agent.prompt(f"number {number}")
    assert (result.text, len(result.messages), result.ok) == ("done", 6, True), result
    return agent


async def main(many: int, folder: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    began = time.perf_counter()
    first = await worked(folder, 0)
    base = kilobytes()
    others = await asyncio.gather(*(worked(folder, number) for number in range(1, many)))
    each = (kilobytes() - base) / len(others)
    print(f"{many} agents ran in {time.perf_counter() - began:.1f} s; {each:.0f} KB each over the first")
    assert each <= LIMIT
    began = time.perf_counter()
    await asyncio.gather(*(agent.close() for agent in (first, *others)))
    left = len(os.listdir("/proc/self/fd")) - before
    processes = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    print(f"closed in {time.perf_counter() - began:.1f} s; left: {left} descriptors, {len(processes)} processes")
    assert (left, processes, len(asyncio.all_tasks())) == (0, [], 1)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        asyncio.run(main(int(sys.argv[1]) if sys.argv[1:] else 200, Path(made)))
