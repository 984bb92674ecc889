"""Streams of real runs for the page: a host, a scripted model, and a client that does things at random."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

from support.page_streams import Recording
from support.served import Client, Json, close_hosts, make_host
from tau.serve.live_session import LiveSession
from tau.serve.snapshot import snapshot_line

WORDS = [f"word{at} " for at in range(12)]
ANSWERS: tuple[Json, ...] = (
    {"blocks": [{"thinking": ["Let ", "me ", "see."]}, {"text": WORDS}], "delayMs": 1},
    {"blocks": [{"text": ["First. "]}, {"tool": "bash", "arguments": ['{"comm', 'and":"echo a; ', 'echo b"}']}]},
    {"blocks": [{"tool": "bash", "arguments": {"command": "echo 1"}}, {"tool": "ls", "arguments": {"path": "."}}]},
    {"blocks": [{"tool": "write", "arguments": {"path": "new.txt", "content": "one\ntwo\n"}}]},
    {"blocks": [{"tool": "bash", "arguments": '{"command": "ec'}]},
    {"blocks": [{"text": WORDS}], "error": {"message": "400 the request is wrong", "after": 3}},
    {"text": "# A heading\n\n<script>top.ran=1</script>\n"},
)
STEPS = ("prompt", "prompt", "prompt", "steer", "follow_up", "abort", "name", "level", "bash", "answer", "fork", "wait")


class Actor:
    """Does one thing after the other in a session."""

    def __init__(self, client: Client, live: LiveSession, chance: random.Random) -> None:
        self._client, self._live, self._chance = client, live, chance

    async def act(self, step: str) -> None:
        client, text = self._client, self._chance.choice(("hello", "go on", "<b>&"))
        match step:
            case "prompt":
                await client.send("prompt", message=text, streamingBehavior="followUp", key=f"k{len(client.records)}")
            case "steer" | "follow_up":
                await client.send(step, message=text)
            case "abort":
                await client.send("abort")
            case "name":
                await client.send("set_session_name", name=text)
            case "level":
                await client.send("set_thinking_level", level=self._chance.choice(("off", "low")))
            case "bash":
                await client.send("bash", command="echo out")
            case "answer":
                await self.answer_all()
            case "fork" if not self._live.streaming:
                await self._fork()
        for _ in range(self._chance.randrange(60)):
            await asyncio.sleep(0)

    async def _fork(self) -> None:
        points = self._live.handle.tree.fork_points()
        if points:
            await self._client.send("fork", entryId=self._chance.choice(points).entry_id)

    async def answer_all(self) -> None:
        for id, dialog in [*self._live.stream.view.dialogs.items()]:
            options = getattr(dialog, "options", ["yes"])
            await self._client.send("extension_ui_response", id=id, value=self._chance.choice(options))

    async def settle(self) -> None:
        """Wait until nothing runs and nothing waits."""
        async with asyncio.timeout(30):
            while self._live.streaming or self._live.stream.view.dialogs:
                await self.answer_all()
                await asyncio.sleep(0.005)


async def record_run(folder: Path, seed: int, steps: int = 8) -> Recording:
    """The stream of one session in which a client does things at random."""
    chance = random.Random(seed)
    answers = [*(chance.choice(ANSWERS) for _ in range(6)), {"text": "Done."}]  # the last one is repeated
    host = make_host(folder, *answers, permissions=chance.choice(("ask", None)), answer_timeout_s=30.0)
    try:
        opener = Client(host)
        await opener.hello()
        session = (await opener.get("open_session", attach=False))["session"]
        live = host.live(session)
        assert live is not None
        client = Client(host)
        assert (await client.hello(session=session, numbers=True, dialect="1.5"))["success"]
        recording = Recording(live.stream, lambda reason: snapshot_line(live, reason, None), chance, lose=True)
        recording.of_run = True
        _observe(live, recording)
        reading = asyncio.create_task(client.ended())
        actor = Actor(client, live, chance)
        for _ in range(steps):
            await actor.act(chance.choice(STEPS))
        await actor.settle()
        recording.read()
        recording.check()
        reading.cancel()
        return recording
    finally:
        await close_hosts()


def _observe(live: LiveSession, recording: Recording) -> None:
    """Read in the same turn of the loop in which the clients are woken."""
    wake: Any = live.stream._wake

    def observed() -> None:
        recording.read()
        wake()

    live.stream._wake = observed  # type: ignore[method-assign]
