"""Extensions without a session: real processes, a registry, and an `act` that writes down what it is asked for."""

from __future__ import annotations

import asyncio
import os
import textwrap
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tau.records.events import ExtensionError, Outcome
from tau.records.settings import ExtensionSettings, Settings
from tau.runtime.extensions.file_loader import RunningExtensions, load_extensions
from tau.runtime.extensions.registry import ExtensionRegistry, PausableTimeout
from tau.runtime.machine.local import LocalMachine
from tau.tools import ToolContext

WITHIN = 60.0  # a busy machine is slow, and only a failure takes it all


class Found(NamedTuple):
    path: Path
    given: bool = False
    content: Mapping[str, str] | None = None
    package: Path | None = None
    hint: str = ""


class Lab:
    """`facts` may be changed, `acts` is what was asked for, `answers` what is answered to that."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.errors: list[ExtensionError] = []
        self.facts: dict[str, Any] = {"cwd": os.getcwd(), "hasUI": True, "mode": "rpc", "activeTools": ["read"]}
        self.acts: list[tuple[str, dict[str, Any]]] = []
        self.answers: dict[str, Callable[[dict[str, Any]], Any]] = {}
        self.extensions = ExtensionRegistry(lambda: self.settings, self._tell)
        self.running: RunningExtensions
        self._news = asyncio.Condition()

    def _tell(self, error: ExtensionError) -> None:
        self.errors.append(error)
        self._notify()

    def _notify(self) -> None:
        async def notify() -> None:
            async with self._news:
                self._news.notify_all()

        self._task = asyncio.get_running_loop().create_task(notify())

    async def act(self, path: str, name: str, params: dict[str, Any], patience: PausableTimeout | None) -> Any:
        self.acts.append((name, params))
        self._notify()
        answer = self.answers[name](params) if name in self.answers else None
        return await answer if asyncio.iscoroutine(answer) else answer

    async def until(self, ready: Callable[[], Any]) -> None:
        """Wait until something that is told or acted makes `ready` true."""
        async with asyncio.timeout(WITHIN), self._news:
            await self._news.wait_for(ready)

    async def shown(self, hook: str = "tool_call", **payload: Any) -> dict[str, Any]:
        return await self.extensions.fire(hook, payload)

    async def bash(self, command: str) -> dict[str, Any]:
        return await self.shown(toolName="bash", toolCallId="1", input={"command": command})

    async def tool(self, name: str, heard: list[Outcome] | None = None, /, **arguments: Any) -> Outcome:
        progress = (heard if heard is not None else []).append
        context = ToolContext(LocalMachine(), os.getcwd(), progress, call_id="call")
        return await self.extensions.tools[name].run(arguments, context)

    async def reload(self, *files: Path) -> None:
        async def announce() -> None:
            await self.shown("session_start", reason="reload")

        await self.running.reload([Found(file) for file in files], announce)

    @property
    def told(self) -> list[tuple[str, str]]:
        return [(error.event, error.error) for error in self.errors]


def limits(**milliseconds: int) -> Settings:
    return Settings(extension_host=ExtensionSettings(**milliseconds))


def written(folder: Path, source: str, name: str = "one") -> Path:
    file = folder / f"{name}.py"
    file.write_text(textwrap.dedent(source))
    return file


@asynccontextmanager
async def running(*found: Found | Path, settings: Settings | None = None, **options: Any) -> AsyncIterator[Lab]:
    """All of `found`, loaded. Afterwards they are stopped."""
    lab = Lab(settings or limits(load_timeout_ms=60_000))
    items = [item if isinstance(item, Found) else Found(item) for item in found]
    given = {"folder": os.getcwd, "agent_dir": "/nowhere", "mode": "rpc", "has_ui": True, "flags": {}, **options}
    lab.running = await load_extensions(lab.extensions, items, lab.act, lambda: dict(lab.facts), **given)
    try:
        yield lab
    finally:
        await lab.running.stop()
