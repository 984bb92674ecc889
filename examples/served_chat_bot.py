"""A chat bot whose conversations outlive it: one session of a host for each room.

    python examples/served_chat_bot.py

The sessions are at a host (`tau serve`), so the bot can be restarted in the middle of an answer: it finds the session
of a room by its name, gets a snapshot with what was said, and hears the rest. People can open the same session with
`tau attach`. Here the host is started by the example, with the offline demo model; `post` stands for a chat service.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile

import tau
from tau import events

SERVE = [sys.executable, "-m", "tau", "serve", "--no-tcp", "--model", "demo"]


def post(room: str, text: str) -> None:
    print(f"#{room}: {text}")


class Bot:
    def __init__(self, host: tau.HostClient) -> None:
        self._host = host
        self._rooms: dict[str, tau.RpcClient] = {}

    async def enter(self, room: str) -> tau.RpcClient:
        """The session of a room: the one that exists, or a new one."""
        if room not in self._rooms:
            known = [row.id for row in await self._host.list() if row.name == room]
            agent = self._host.attach(known[0]) if known else self._host.open(name=room)
            agent.on_event(lambda event: self._show(room, event))
            self._rooms[room] = await agent
        return self._rooms[room]

    def _show(self, room: str, event: events.RpcEvent) -> None:
        match event:
            case events.Snapshot(partial=dict(partial)):  # we came in the middle of an answer
                post(room, f"(in progress: {len(partial['content'])} blocks)")
            case events.ToolStart(tool_name=name):
                post(room, f"[{name}]")
            case events.MessageEnd(message=events.Assistant(text=text)) if text:
                post(room, text)
            case events.AgentSettled():
                post(room, "done")
            case _:
                pass

    async def leave(self) -> None:
        """Detach from all rooms. What runs goes on."""
        for agent in self._rooms.values():
            await agent.stop()


async def main() -> None:
    async with tau.connect() as host:
        bot = Bot(host)
        agent = await bot.enter("general")
        await agent.prompt("list the files here")
        await bot.leave()  # at once: as if the bot had been restarted

        bot = Bot(host)
        agent = await bot.enter("general")
        await agent.wait_for_idle()
        print(f"the session has {(await agent.get_state()).message_count} messages")
        await bot.leave()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="tau-") as folder:
        os.environ["PI_CODING_AGENT_DIR"] = folder
        with subprocess.Popen(SERVE, stdout=subprocess.PIPE) as served:
            assert served.stdout is not None
            served.stdout.readline()  # it listens
            asyncio.run(main())
            served.terminate()
