"""HostClient for programs without an event loop: `tau.sync.connect`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

from tau.client import host
from tau.client.errors import AgentGone
from tau.client.events import SessionListEvent
from tau.client.facade import blocking
from tau.client.loop_thread import LoopThread
from tau.client.sync import RpcClient
from tau.records.host_events import HelloReply

T = TypeVar("T")


def connect(url: str = "unix:", *, token: str | None = None, reconnect: bool = True) -> HostClient:
    """Connect to a host, see `tau.connect`. It disconnects at the end of a `with`, or with `stop`."""
    client = HostClient(url, token=token, reconnect=reconnect)
    client.start()
    return client


class HostClient:
    """The sessions of a host: `tau.HostClient` with blocking methods."""

    def __init__(self, url: str = "unix:", *, token: str | None = None, reconnect: bool = True) -> None:
        self._url, self._token, self._reconnect = url, token, reconnect
        self._peer = host.HostClient(url, token=token, reconnect=reconnect)
        self._loop: LoopThread | None = None

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            work.close()
            raise AgentGone("There is no connection: use the client in a `with`, or call start().")
        return self._loop.run(work)

    def start(self) -> None:
        """Connect. Raises AgentGone if there is no host, or if it refuses."""
        if self._loop is not None:
            return
        self._loop = LoopThread()
        try:
            self._wait(self._peer.start())
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Disconnect. Sessions go on."""
        if self._loop is not None:
            self._loop.require_other_thread()
        loop, self._loop = self._loop, None
        if loop is not None and not loop.is_forked:
            try:
                loop.run(self._peer.stop())
            finally:
                loop.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def info(self) -> HelloReply:
        """What the host said of itself and of this client: its version, its id, the client's scope."""
        return self._peer.info

    list = blocking(host.HostClient.list)
    close = blocking(host.HostClient.close)
    who = blocking(host.HostClient.who)

    def open(self, **fields: Any) -> RpcClient:
        """Return a client for a session that is opened when the client starts, see `tau.HostClient.open`."""
        return RpcClient.connect(self._url, token=self._token, open=fields, reconnect=self._reconnect)

    def attach(self, session: str) -> RpcClient:
        """Return a client for a session, by its id."""
        return RpcClient.connect(self._url, token=self._token, session=session, reconnect=self._reconnect)

    def watch(self) -> Iterator[SessionListEvent]:
        """Return the SessionOpened, SessionClosed and SessionStatus events from now on."""
        return self._each(self._wait(self._watch()))

    async def _watch(self) -> AsyncGenerator[SessionListEvent, None]:
        return self._peer.watch()

    def _each(self, events: AsyncGenerator[SessionListEvent, None]) -> Iterator[SessionListEvent]:
        try:
            while (event := self._wait(_next(events))) is not None:
                yield event
        finally:
            if self._loop is not None:
                self._wait(events.aclose())


async def _next(events: AsyncGenerator[SessionListEvent, None]) -> SessionListEvent | None:
    return await anext(events, None)
