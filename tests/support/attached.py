"""A terminal's handle on a session of a host in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from support.socket_host import SocketHost, socket_host
from tau.client.client import RpcClient, client_over
from tau.client.opening import remote_line
from tau.records.events import MessageEnd
from tau.runtime.app.factory import load
from tau.runtime.app.options import SessionOptions, SessionTarget
from tau.runtime.app.remote_handle import RemoteHandle


class Front:
    """A front end that keeps what it is shown."""

    def __init__(self) -> None:
        self.shown: list[Any] = []
        self._news = asyncio.Event()

    def show(self, event: Any) -> None:
        self.shown.append(event)
        self._news.set()

    async def until(self, wanted: Callable[[Any], bool]) -> Any:
        while True:
            for event in self.shown:
                if wanted(event):
                    return event
            self._news.clear()
            await self._news.wait()

    def texts(self) -> list[str]:
        return [
            event.message.text
            for event in self.shown
            if isinstance(event, MessageEnd) and hasattr(event.message, "text")
        ]


@asynccontextmanager
async def attached(
    served: SocketHost, folder: Path, session: str | None = None, **opening: Any
) -> AsyncIterator[tuple[RemoteHandle, Front]]:
    options = SessionOptions(session=SessionTarget(kept=False))
    (folder / "own").mkdir(exist_ok=True)
    factory = load(folder / "own", options, {"HOME": str(folder)}, str(folder / "work"))
    front = Front()
    line = remote_line(served.address, session=session, open=None if session else {"memory": True, **opening})
    handle = RemoteHandle(factory.open(front.show, "tui"), client_over(line, RpcClient), front.show)
    await handle.connect()
    try:
        yield handle, front
    finally:
        await handle.close(1.0)


def run(folder: Path, story: Callable[[SocketHost], Awaitable[None]], *answers: Any, **changes: Any) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), socket_host(folder, *answers, **changes) as served:
            await story(served)

    asyncio.run(main())
