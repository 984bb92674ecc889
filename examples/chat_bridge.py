"""A formatter between an agent and a chat service: few messages, edited as the answer grows, none too long.

    python examples/chat_bridge.py "list the files here"

`Room` stands for the service. A real service has the same two calls, post and edit, and a rate limit; only `Room` has
to be replaced.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterable

import tau
from tau import events

MAX_POST_CHARACTERS = 2000  # limit of the service
EDIT_INTERVAL_S = 1.0


class Room:
    def __init__(self) -> None:
        self.posts: list[str] = []

    async def post(self, text: str) -> int:
        self.posts.append(text)
        return len(self.posts) - 1

    async def edit(self, post: int, text: str) -> None:
        self.posts[post] = text


class Bridge:
    """One post for each tool call, and as many as necessary for the answer."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._text = ""
        self._post: int | None = None
        self._next = 0.0

    async def forward(self, events_of_run: AsyncIterable[tau.AgentEvent]) -> None:
        async for event in events_of_run:
            match event:
                case events.MessageUpdate(assistant_message_event=events.TextDelta(delta=text)):
                    self._text += text
                    await self._show(now=False)
                case events.ToolStart(tool_name=name, args=args):
                    await self._finish_post()
                    await self._room.post(f"🔧 {name} {' '.join(map(str, args.values()))}"[:MAX_POST_CHARACTERS])
                case events.MessageEnd(message=events.Assistant(error_message=str(why))):
                    self._text += f"\n⚠️ {why}"
                case events.AgentSettled():
                    await self._finish_post()
                case _:
                    pass

    async def _finish_post(self) -> None:
        await self._show(now=True)
        self._text, self._post = "", None

    async def _show(self, *, now: bool) -> None:
        # The agent does not wait for a slow service: deltas that arrive in the meantime are merged.
        while len(self._text) > MAX_POST_CHARACTERS:
            at = self._text.rfind("\n", 0, MAX_POST_CHARACTERS) + 1 or MAX_POST_CHARACTERS
            rest, self._text = self._text[at:], self._text[:at]
            await self._show(now=True)
            self._text, self._post = rest, None
        if not self._text.strip() or (not now and time.monotonic() < self._next):
            return
        self._next = time.monotonic() + EDIT_INTERVAL_S
        if self._post is None:
            self._post = await self._room.post(self._text)
        else:
            await self._room.edit(self._post, self._text)


async def main(question: str) -> None:
    room = Room()
    async with tau.open(model="demo", session=False) as agent:
        await Bridge(room).forward(agent.prompt(question))
    for number, post in enumerate(room.posts, 1):
        print(f"--- message {number}\n{post}")


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "list the files here"))
