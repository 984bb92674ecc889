"""Many sessions of one process that have just answered: few of their connections stay open, and none fails.

    python tests/long/idle_connections.py [SESSIONS] [DESCRIPTORS]

A model server on loopback keeps every connection open, as providers do. A second process has the sessions, each with a
file, and may have as many descriptors as the second number says.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.keep_alive_server import KeepAliveServer

SESSIONS = 500
DESCRIPTORS = 1024
AT_ONCE = 16
WITHIN_S = 600.0
SETTLED_S = 0.2


class Figures(NamedTuple):
    sessions: int
    failed: int  # prompts without an answer
    idle: int  # connections that are open when all have answered
    said: str  # the first failure


def measure(folder: Path, sessions: int = SESSIONS, descriptors: int = DESCRIPTORS) -> Figures:
    (folder / "agent").mkdir(parents=True)
    with KeepAliveServer() as server:
        (folder / "agent" / "models.json").write_text(json.dumps(server.models))
        words = [sys.executable, __file__, "--inside", str(folder), str(sessions), str(descriptors)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=WITHIN_S)
    if done.returncode != 0:
        return Figures(sessions, sessions, 0, done.stderr.strip()[-2000:])
    return Figures(*json.loads(done.stdout))


async def inside(folder: Path, sessions: int) -> Figures:
    import tau

    before = sockets()
    turn = asyncio.Semaphore(AT_ONCE)
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}

    async def answered(number: int) -> tuple[tau.Agent, str]:
        async with turn:
            cwd = folder / str(number)
            cwd.mkdir()
            agent = await tau.open(cwd, agent_dir=folder / "agent", model="mock/m1", env=environment)
            result = await agent.prompt("hi")
            return agent, "" if result.text == "ok" else f"{result.error or result.text!r}"

    found = await asyncio.gather(*(answered(number) for number in range(sessions)), return_exceptions=True)
    agents = [one[0] for one in found if not isinstance(one, BaseException)]
    failures = [str(one) if isinstance(one, BaseException) else one[1] for one in found]
    idle = await at_rest() - before
    await asyncio.gather(*(agent.close() for agent in agents))
    wrong = [one for one in failures if one]
    return Figures(sessions, len(wrong), idle, wrong[0] if wrong else "")


async def at_rest() -> int:
    """How many sockets are open, once the loop has closed those that it was told to close."""
    now, before = sockets(), 0
    while now != before:
        await asyncio.sleep(SETTLED_S)
        now, before = sockets(), now
    return now


def sockets() -> int:
    found = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
        except OSError:
            continue  # the descriptor of the folder itself
    return found


def main() -> int:
    if sys.argv[1:2] == ["--inside"]:
        folder, sessions, descriptors = Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
        print(json.dumps(asyncio.run(inside(folder, sessions))))
        return 0
    numbers = [int(word) for word in sys.argv[1:]]
    with tempfile.TemporaryDirectory(prefix="tau-idle-") as folder:
        found = measure(Path(folder), *numbers)
    print(f"{found.sessions} sessions: {found.failed} failed, {found.idle} idle connections; {found.said}")
    return 1 if found.failed else 0


if __name__ == "__main__":
    sys.exit(main())
