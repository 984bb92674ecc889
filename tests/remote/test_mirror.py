"""The copy of a session at a host: readings that overlap do not replace newer ones."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from support.served import host_config
from tau.records.base import replace
from tau.records.replies import SessionState
from tau.runtime.app.factory import load
from tau.runtime.app.remote_mirror import SessionMirror


class SlowHost:
    """A host whose first answer about entries takes until `go`."""

    def __init__(self, state: SessionState) -> None:
        self.id = "first"
        self.go = asyncio.Event()
        self.asked = asyncio.Event()
        self._state = state
        self._answers = 0

    async def get_state(self) -> SessionState:
        return replace(self._state, session_id=self.id)

    async def get_tools(self) -> list[Any]:
        return []

    async def get_available_models(self) -> list[Any]:
        return []

    async def get_entries(self, since: str | None = None) -> Any:
        entry = {"type": "session_info", "id": f"{self.id}-1", "parentId": None, "timestamp": "t", "name": self.id}
        self._answers += 1
        if self._answers == 1:
            self.asked.set()
            await self.go.wait()
        return SimpleNamespace(entries=[entry], leaf_id=entry["id"])


async def follow_two_moves(folder: Path) -> str | None:
    config = host_config(folder)
    factory = load(config.agent_dir, config.options, config.environment, config.cwd)
    handle = factory.open(lambda event: None, "print")
    host = SlowHost(handle.state.current())
    mirror = SessionMirror(handle._session, host)  # type: ignore[arg-type]
    older = asyncio.create_task(mirror.load())
    await host.asked.wait()
    host.id = "second"
    newer = asyncio.create_task(mirror.load())
    for _ in range(100):  # a newer reading that does not wait for the older one is done by then
        await asyncio.sleep(0)
        if newer.done():
            break
    else:
        await asyncio.wait([newer], timeout=0.2)
    host.go.set()
    await asyncio.gather(older, newer)
    name = handle._session.log.tree.name
    await handle.close(1)
    await handle.release()
    return name


def test_an_older_reading_of_the_session_does_not_replace_a_newer_one(tmp_path: Path) -> None:
    assert asyncio.run(follow_two_moves(tmp_path)) == "second"
