"""Many sessions in one process, through the library. Started and measured by benchmarks/jobs/crowds.py.

    python benchmarks/many_sessions.py HOW_MANY FOLDER AGENT_DIR

It talks as RPC mode does, so that it is measured as any program is: `prompt` asks
every session one thing and is answered when all have settled, and `get_state` is
answered for the session whose number is given.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import sys
from pathlib import Path

import tau
from tau import events

AT_ONCE = 20  # prompts under way


async def main(many: int, folder: Path, agent_dir: Path) -> None:
    # A session has its file open, and for some seconds after a prompt a connection; 1,024 is a common limit.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    agents = []
    # As docs/sdk.md recommends for programs with many sessions: or the collector would go through all of them again
    # and again, and find nothing.
    gc.disable()
    for number in range(many):
        cwd = folder / str(number)
        cwd.mkdir()
        agents.append(await tau.open(cwd, agent_dir=agent_dir, provider="bench", model="m"))
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
    gc.enable()
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        command = json.loads(line)
        if command["type"] == "prompt":
            await _prompted(agents)
            _answer({"sessions": many})
        else:
            _answer(events.raw(agents[command.get("session", -1)].state))
    await asyncio.gather(*(agent.close() for agent in agents))


async def _prompted(agents: list[tau.Agent]) -> None:
    turns = asyncio.Semaphore(AT_ONCE)

    async def ask(agent: tau.Agent) -> None:
        async with turns:
            result = await agent.prompt("go on")
            assert result.ok, result.error

    await asyncio.gather(*map(ask, agents))


def _answer(data: object) -> None:
    print(json.dumps({"id": "q", "type": "response", "success": True, "data": data}, separators=(",", ":")), flush=True)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])))
