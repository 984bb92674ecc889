"""Many agents in one process, each with its own folder, tools and session. A semaphore limits the concurrent runs.

python examples/many_agents.py 20
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

import tau

MAX_CONCURRENT_RUNS = 8  # because of the provider's rate limits; agents themselves are cheap


async def look(folder: Path, limit: asyncio.Semaphore) -> tuple[str, tau.Result]:
    async with limit, tau.open(folder, model="demo", session=False) as agent:
        return folder.name, await agent.prompt("list the files here")


async def main(count: int, place: Path) -> None:
    folders = [place / f"project-{number}" for number in range(1, count + 1)]
    for number, folder in enumerate(folders, 1):
        folder.mkdir()
        (folder / f"file-{number}.txt").write_text("hello\n")
    limit = asyncio.Semaphore(MAX_CONCURRENT_RUNS)
    cost = 0.0
    for work in asyncio.as_completed([look(folder, limit) for folder in folders]):
        name, result = await work
        cost += result.cost
        (listed,) = [message for message in result.messages if isinstance(message, tau.events.ToolResult)]
        (block, *_) = listed.content
        print(f"{name}: {block.text.strip() if isinstance(block, tau.Text) else ''}")
    print(f"{count} agents, ${cost:.2f}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        asyncio.run(main(int(sys.argv[1]) if sys.argv[1:] else 20, Path(made)))
