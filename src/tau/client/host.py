"""HostClient: the sessions of a host (`tau serve`): list, open, watch and close them.

async with tau.connect() as host:
    for row in await host.list(live=True):
        print(row.id, row.name)
    async with host.open(model="demo") as agent:
        await agent.prompt_and_wait("What files are here?")
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from types import TracebackType
from typing import Any, Self, TypeVar

from tau.client.addresses import find_address
from tau.client.client import RpcClient
from tau.client.connection import Connection
from tau.client.errors import AgentGone
from tau.client.events import SessionListEvent
from tau.client.opening import as_command, host_connection
from tau.client.remote import UNNOTICED_ID, RemoteLine
from tau.client.replies import read
from tau.client.stream import Events
from tau.records.base import Record, encode
from tau.records.host_commands import CloseSession, ListHostSessions, WatchSessions, Who
from tau.records.host_events import (
    ClientRow,
    Clients,
    HelloReply,
    HostSessionRow,
    HostSessions,
    SessionClosed,
    SessionOpened,
    SessionStatus,
)

T = TypeVar("T", bound=Record)
ClientRows = list[ClientRow]
WATCH = encode({"id": UNNOTICED_ID, "type": "watch_sessions", "enabled": True}) + b"\n"


def connect(url: str = "unix:", *, token: str | None = None, reconnect: bool = True) -> HostClient:
    """Return a client of a host. It connects with `async with` or `await`. See `RpcClient.connect` for `url`."""
    return HostClient(url, token=token, reconnect=reconnect)


class HostClient:
    """The sessions of a host: list, open, watch and close them. Use it with `async with`, or await it."""

    def __init__(
        self, url: str = "unix:", *, token: str | None = None, reconnect: bool = True, timeout: float | None = 60.0
    ) -> None:
        self._url, self._token = url, token
        self._address = find_address(url, token)
        self._reconnect, self._timeout = reconnect, timeout
        self._connection: Connection | None = None
        self._watching: asyncio.Future[bytes] | None = None

    async def start(self) -> None:
        """Connect. Raises AgentGone if there is no host, or if it refuses."""
        connection = host_connection(self._address, timeout=self._timeout, reconnect=self._reconnect)
        await connection.line.start()
        self._connection = connection
        connection.open()

    async def stop(self) -> None:
        """Disconnect. Sessions go on."""
        if self._connection is not None:
            await self._connection.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.stop()

    def __await__(self) -> Generator[Any, None, Self]:
        return self.__aenter__().__await__()

    @property
    def info(self) -> HelloReply:
        """What the host said of itself and of this client: its version, its id, the client's scope."""
        return self._line.hello

    # Sessions.

    async def list(self, *, all: bool = False, live: bool = False) -> list[HostSessionRow]:
        """List the sessions of the host's project, newest first. `all`: of every project. `live`: only open ones."""
        rows: list[HostSessionRow] = []
        cursor = None
        while True:
            command = ListHostSessions(all or None, live or None, cursor)
            page = await self._call(HostSessions, command, "list_sessions")
            rows += page.sessions
            if not page.cursor or not isinstance(page.cursor, str):
                return rows
            cursor = page.cursor

    def open(self, **fields: Any) -> RpcClient:
        """Return a client for a session that is opened when the client starts: a new one; `session`: an existing one;
        `fork_of`: a copy. Others: `cwd`, `name`, `model`, `thinking`, `tools`, `budget`, `permissions`, `sandbox`,
        `memory`.
        """
        return RpcClient.connect(self._url, token=self._token, open=fields, reconnect=self._reconnect)

    def attach(self, session: str) -> RpcClient:
        """Return a client for a session, by its id."""
        return RpcClient.connect(self._url, token=self._token, session=session, reconnect=self._reconnect)

    async def close(self, session: str, *, abort: bool = False) -> None:
        """Close a session; its file stays. Refused while it runs, unless `abort` is set, and while others use it."""
        await self._require_connection().call(as_command(CloseSession(session, abort or None)))

    async def who(self, session: str) -> ClientRows:
        """List the clients of a session."""
        return (await self._call(Clients, Who(session), "who")).clients

    def watch(self) -> AsyncGenerator[SessionListEvent, None]:
        """Return the SessionOpened, SessionClosed and SessionStatus events from now on, for `async for`."""
        connection = self._require_connection()
        events = connection.events(None)
        self._line.on_every_connection = WATCH
        self._watching = asyncio.ensure_future(connection.call(as_command(WatchSessions(True))))
        self._watching.add_done_callback(lambda done: done.cancelled() or done.exception())
        return _session_events(events)

    async def _call(self, kind: type[T], command: Any, name: str) -> T:
        return read(kind, await self._require_connection().call(as_command(command)), name)

    def _require_connection(self) -> Connection:
        if self._connection is None:
            raise AgentGone("There is no connection: use the client in a `with`, or call start().")
        return self._connection

    @property
    def _line(self) -> RemoteLine:
        line = self._require_connection().line
        assert isinstance(line, RemoteLine)
        return line


async def _session_events(events: Events) -> AsyncGenerator[SessionListEvent, None]:
    async with events:
        async for event in events:
            if isinstance(event, SessionOpened | SessionClosed | SessionStatus):
                yield event
