"""An event loop that differs from that of asyncio where those of other libraries do, such as uvloop.

Its API is documented (asyncio.AbstractEventLoop), but it has fewer options; its transports have the methods of
asyncio's and not its classes; its clock counts whole milliseconds; and a timer that is due is a plain handle. Sockets
and processes are real.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class ForeignTransport:
    """The methods of a transport, without its class."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def get_pipe_transport(self, fd: int) -> Any:
        pipe = self._transport.get_pipe_transport(fd)
        return None if pipe is None else ForeignTransport(pipe)


class ForeignLoop(asyncio.SelectorEventLoop):
    def time(self) -> float:
        return int(super().time() * 1000) / 1000

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        if round((when - self.time()) * 1000) <= 0:
            return self.call_soon(callback, *args, context=context)
        return super().call_at(when, callback, *args, context=context)

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], Any],
        host: str | None = None,
        port: int | None = None,
        *,
        ssl: ssl.SSLContext | bool | None = None,
        sock: Any = None,
        server_hostname: str | None = None,
    ) -> Any:
        factory, named = _foreign(protocol_factory), {"sock": sock, "server_hostname": server_hostname}
        _, protocol = await super().create_connection(factory, host, port, ssl=ssl, **named)  # type: ignore[call-overload]
        return None, protocol

    async def create_unix_connection(self, protocol_factory: Any, path: Any = None, *, sock: Any = None) -> Any:  # type: ignore[override]
        transport, protocol = await super().create_unix_connection(_foreign(protocol_factory), path, sock=sock)
        return ForeignTransport(transport), protocol

    async def subprocess_exec(self, protocol_factory: Any, *args: Any, **options: Any) -> Any:
        transport, protocol = await super().subprocess_exec(_foreign(protocol_factory), *args, **options)
        return ForeignTransport(transport), protocol


def _foreign(protocol_factory: Callable[[], Any]) -> Callable[[], Any]:
    def make() -> Any:
        protocol = protocol_factory()
        connection_made = protocol.connection_made
        protocol.connection_made = lambda transport: connection_made(ForeignTransport(transport))
        return protocol

    return make


def run_foreign(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` on such a loop."""
    with asyncio.Runner(loop_factory=ForeignLoop) as runner:
        return runner.run(main)
