"""A session in this process: a scripted model, real files, and a client that only listens.

Extensions of a test are its own functions, registered straight with the session.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.rpc_process import Json
from tau.core.agent.draft import Update
from tau.records.base import parse
from tau.records.dialogs import UiRequest, ui_json
from tau.records.events import Event, event_json
from tau.runtime.app.factory import load
from tau.runtime.app.options import SessionOptions, SessionTarget
from tau.runtime.extensions.registry import Handler
from tau.runtime.session.extension_actions import act
from tau.runtime.session.session import Session

WITHIN = 30.0  # seconds; only a failure takes them all

Answering = Callable[[Json], Any]


class House:
    """The session, what its client heard, and how to be an extension of it."""

    def __init__(self, folder: Path, *answers: Json, settings: Json | None = None) -> None:
        for name in ("agent", "work"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "script.json").write_text(json.dumps({"answers": answers or [{"text": "ok"}]}))
        (folder / "agent" / "settings.json").write_text(json.dumps(settings or {}))
        wanted = SessionTarget(folder=str(folder / "sessions"))
        wishes = SessionOptions(model="scripted", script=str(folder / "script.json"), session=wanted)
        with inside(folder / "work"):
            self.handle = load(folder / "agent", wishes, {}).open(self._hear)
        self.session: Session = self.handle._session
        self.heard: list[Json] = []
        self._news = asyncio.Event()

    def _hear(self, event: Event | Update | UiRequest) -> Awaitable[None] | None:
        if isinstance(event, Update):
            line = event.wire_json()
        else:
            line = ui_json(event) if isinstance(event, UiRequest) else event_json(event)
        self.heard.append(parse(line))
        self._news.set()
        return None

    def on(self, hook: str, answer: Answering | Any = None, path: str = "guest.py") -> Handler:
        """An extension's handler: a function of the event, or what it always answers."""

        async def call(payload: Mapping[str, Any]) -> Any:
            said = answer(dict(payload)) if callable(answer) else answer
            return await said if isinstance(said, Awaitable) else said

        return self.session.extensions.on(hook, path, call)

    def notes(self, *hooks: str) -> list[Json]:
        """What an extension is told at these moments, as it is told."""
        told: list[Json] = []
        for hook in hooks:
            self.on(hook, told.append)
        return told

    async def act(self, name: str, /, **params: Any) -> Any:
        return await act(self.session, name, params)

    async def prompt(self, text: str) -> list[Json]:
        """Said, run and settled: what the client heard of it."""
        before = len(self.heard)
        await self.session.input.submit(text, [], None)
        await self.session.runs.idle()
        return self.heard[before:]

    async def until(self, wanted: Callable[[Json], bool]) -> Json:
        async with asyncio.timeout(WITHIN):
            while not (found := [event for event in self.heard if wanted(event)]):
                self._news.clear()
                await self._news.wait()
        return found[-1]

    @property
    def errors(self) -> list[tuple[str, str, str]]:
        told = [event for event in self.heard if event["type"] == "extension_error"]
        return [(event["extensionPath"], event["event"], event["error"]) for event in told]


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def play(story: Awaitable[Any]) -> Any:
    """One test, to its end or to the deadline."""

    async def told() -> Any:
        return await asyncio.wait_for(story, WITHIN)  # type: ignore[arg-type]

    return asyncio.run(told())
