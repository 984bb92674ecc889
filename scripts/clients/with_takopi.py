"""takopi: its runner for pi, without Telegram."""

from __future__ import annotations

import asyncio
from pathlib import Path

from steps import ANSWER, READ, WITHIN, expect, step
from takopi.model import ActionEvent, CompletedEvent, ResumeToken, TakopiEvent
from takopi.runners.pi import build_runner


async def run(prompt: str, resume: ResumeToken | None = None) -> list[TakopiEvent]:
    async with asyncio.timeout(WITHIN):
        return [event async for event in build_runner({}, Path("takopi.toml")).run(prompt, resume)]


def completed(events: list[TakopiEvent]) -> CompletedEvent:
    (event,) = [event for event in events if isinstance(event, CompletedEvent)]
    return event


async def main() -> None:
    token: ResumeToken | None = None
    with step("prompt"):
        events = await run(READ)
        done = completed(events)
        expect((done.ok, done.answer, done.error), (True, ANSWER, None))
        tools = [event for event in events if isinstance(event, ActionEvent) and event.phase == "completed"]
        expect([event.ok for event in tools], [True])
        token = done.resume
        expect(token is not None and len(token.value), 8)  # the beginning of the id of the session

    with step("resume"):
        done = completed(await run("say again", token))
        expect((done.ok, done.answer, done.resume), (True, "again", token))
        (session,) = Path.home().parent.glob("agent/sessions/*/*.jsonl")
        expect(session.read_text().count('"role":"user"'), 2)

    with step("error"):
        done = completed(await run("refuse", token))
        expect((done.ok, "refused by the model" in (done.error or "")), (False, True))


asyncio.run(main())
