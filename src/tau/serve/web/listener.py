"""Listener: runs the ASGI application on TCP sockets, with uvicorn's protocols and without its server.

uvicorn's `Server` would take over signals and wake up ten times a second.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from uvicorn.config import Config
from uvicorn.server import ServerState

from tau.errors import UsageError
from tau.serve.request_checks import MAX_BODY_BYTES
from tau.serve.web.connections import ConnectionTable
from tau.serve.web.keepalive import PING_INTERVAL_S, PingWheel
from tau.serve.web.protocols import HEAD_TIMEOUT_S, HeadLimits, LimitedWebSocket

BACKLOG = 4096  # connections that the kernel keeps until they are accepted
ACCEPTED_AT_ONCE = 64  # before other events are handled; the descriptors that these need are SPARE
KEEP_ALIVE_S = 30
CLOSE_TIMEOUT_S = 2.0
CLOSE_TURNS = 3

AsgiApp = Callable[[Any, Any, Any], Awaitable[None]]


def bind(address: str, port: int) -> socket.socket:
    """A listening socket. Raises UsageError if the address is taken or not one of this machine."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((address, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        where = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        raise UsageError(
            f"Cannot listen on {where}: {error.strerror or error}. Another server may use it: stop that one,"
            " or choose another port with --listen ADDRESS:PORT."
        ) from None
    listener.setblocking(False)
    return listener


class Listener:
    """Serves `app` on bound sockets."""

    def __init__(
        self,
        app: AsgiApp,
        *,
        head_timeout_s: float = HEAD_TIMEOUT_S,
        ping_interval_s: float = PING_INTERVAL_S,
        table: ConnectionTable | None = None,
    ) -> None:
        self.connections = ConnectionTable() if table is None else table
        self._config = Config(
            app,
            http=HeadLimits,
            ws=LimitedWebSocket,
            ws_max_size=MAX_BODY_BYTES,
            ws_ping_interval=None,  # see keepalive.py
            ws_per_message_deflate=False,
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="error",  # with a warning for each bad request anyone could fill the log; the rest has queries
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
        )
        self._config.load()
        self._state = ServerState()
        self._app_state = {
            "connections": self.connections,
            "head_timeout_s": head_timeout_s,
            "pings": PingWheel(ping_interval_s),
        }
        self._servers: list[asyncio.Server] = []

    async def start(self, *sockets: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        for one in sockets:
            self._servers.append(await loop.create_server(self._protocol, sock=one, backlog=ACCEPTED_AT_ONCE))
            one.listen(BACKLOG)  # for asyncio, `backlog` is also how many it accepts in one go

    def _protocol(self) -> asyncio.Protocol:
        return HeadLimits(self._config, self._state, self._app_state)

    def stop_accepting(self) -> None:
        for server in self._servers:
            server.close()

    async def close(self) -> None:
        """End all connections. Requests in progress have CLOSE_TIMEOUT_S to finish."""
        self.stop_accepting()
        for connection in list(self._state.connections):
            connection.shutdown()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                while self._state.tasks:
                    await asyncio.wait(set(self._state.tasks))
        for task in list(self._state.tasks):
            task.cancel()
        if self._state.tasks:
            await asyncio.wait(set(self._state.tasks), timeout=CLOSE_TIMEOUT_S)
        for connection in list(self._state.connections):
            connection.transport.abort()
        for _ in range(CLOSE_TURNS):  # of the event loop, in which aborted connections are closed
            await asyncio.sleep(0)
