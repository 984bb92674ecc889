"""A formatter between an agent and a chat service: few messages, edited as the answer grows, none too long.

    python examples/chat_bridge.py "list the files here"

`Room` stands for the service: here it prints. A real one has two calls, post and
edit, and a limit on how often; only `Room` has to be changed.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterable

import tau
from tau import events

LONGEST = 2000  # characters in one message of the service
OFTEN = 1.0  # seconds between two edits


class Room:
    def __init__(self) -> None:
        self.posts: list[str] = []

    async def post(self, text: str) -> int:
        self.posts.append(text)
        return len(self.posts) - 1

    async def edit(self, post: int, text: str) -> None:
        self.posts[post] = text


class Bridge:
    """One post for the tools, and as many as it takes for the answer."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._text = ""
        self._post: int | None = None
        self._next = 0.0

    async def carry(self, told: AsyncIterable[tau.AgentEvent]) -> None:
        async for event in told:
            match event:
                case events.MessageUpdate(assistant_message_event=events.TextDelta(delta=text)):
                    self._text += text
                    await self._show(now=False)
                case events.ToolStart(tool_name=name, args=args):
                    await self._whole()
                    await self._room.post(f"🔧 {name} {' '.join(map(str, args.values()))}"[:LONGEST])
                case events.MessageEnd(message=events.Assistant(error_message=str(why))):
                    self._text += f"\n⚠️ {why}"
                case events.AgentSettled():
                    await self._whole()
                case _:
                    pass

    async def _whole(self) -> None:
        await self._show(now=True)
        self._text, self._post = "", None

    async def _show(self, *, now: bool) -> None:
        # The agent does not wait while the service is slow: pieces that come meanwhile come joined.
        while len(self._text) > LONGEST:
            at = self._text.rfind("\n", 0, LONGEST) + 1 or LONGEST
            rest, self._text = self._text[at:], self._text[:at]
            await self._show(now=True)
            self._text, self._post = rest, None
        if not self._text.strip() or (not now and time.monotonic() < self._next):
            return
        self._next = time.monotonic() + OFTEN
        if self._post is None:
            self._post = await self._room.post(self._text)
        else:
            await self._room.edit(self._post, self._text)


async def main(question: str) -> None:
    room = Room()
    async with tau.open(model="demo", session=False) as agent:
        await Bridge(room).carry(agent.prompt(question))
    for number, post in enumerate(room.posts, 1):
        print(f"--- message {number}\n{post}")


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "list the files here"))
