"""The loopback HTTP listener to which a browser returns after a login (RFC 8252, section 7.3)."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import Self
from urllib.parse import parse_qsl, urlsplit, urlunsplit

MAX_HEAD_BYTES = 16 * 1024
READ_TIMEOUT_S = 10.0
LOGIN_TIMEOUT_S = 600.0
DONE_PAGE = "The login is complete. You can close this window and return to the terminal."
FAILED_PAGE = "The login was refused. The terminal shows why."
PASTE = "If the browser runs on another machine, paste the address where it ends here:"
NOT_THE_ADDRESS = "This is not the address of this login. It begins with {uri}?"
# Asks the user for an address; None if the user has none.
Paste = Callable[[str], Awaitable[str | None]]


class RedirectListener:
    """Waits for one request to the redirect address with the expected state; other requests get 404."""

    def __init__(self, redirect_uri: str, state: str) -> None:
        self._uri = urlsplit(redirect_uri)
        self._state = state
        self._server: asyncio.Server | None = None
        self._answer: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        self.redirect_uri = redirect_uri

    async def __aenter__(self) -> Self:
        host = self._uri.hostname or "127.0.0.1"
        self._server = await asyncio.start_server(self._serve, host, self._uri.port or 0, limit=MAX_HEAD_BYTES)
        if self._uri.port is None:
            port = self._server.sockets[0].getsockname()[1]
            authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            self.redirect_uri = urlunsplit(self._uri._replace(netloc=authority))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()

    async def received(self, pasted: Paste | None = None) -> dict[str, str]:
        """Return the parameters of the redirect. Raises TimeoutError after ten minutes."""
        asking = None if pasted is None else asyncio.create_task(self._take_pasted(pasted))
        try:
            async with asyncio.timeout(LOGIN_TIMEOUT_S):
                return await self._answer
        finally:
            if asking is not None:
                asking.cancel()

    async def _take_pasted(self, pasted: Paste) -> None:
        question = PASTE
        while (address := await pasted(question)) is not None:
            parameters = self._parameters_of(address)
            if parameters is not None and not self._answer.done():
                self._answer.set_result(parameters)
                return
            question = NOT_THE_ADDRESS.format(uri=self.redirect_uri)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
            parameters = self._parameters(head)
            if parameters is None:
                await _respond(writer, "404 Not Found", "Not found.")
                return
            await _respond(writer, "200 OK", DONE_PAGE if "code" in parameters else FAILED_PAGE)
            if not self._answer.done():
                self._answer.set_result(parameters)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # not the browser's redirect; continue to wait for it
        finally:
            writer.close()

    def _parameters(self, head: bytes) -> dict[str, str] | None:
        """The parameters of the redirect; None for another request, for example for an icon, or a forged one."""
        method, _, rest = head.decode("latin-1").partition(" ")
        return self._parameters_of(rest.partition(" ")[0]) if method == "GET" else None

    def _parameters_of(self, address: str) -> dict[str, str] | None:
        try:
            target = urlsplit(address)
        except ValueError:
            return None
        parameters = dict(parse_qsl(target.query))
        known = hmac.compare_digest(parameters.get("state", "").encode(), self._state.encode())
        if target.path != (self._uri.path or "/") or not known:
            return None
        return parameters if "code" in parameters or "error" in parameters else None


async def _respond(writer: asyncio.StreamWriter, status: str, text: str) -> None:
    body = f"<!doctype html><meta charset=utf-8><title>tau</title><p>{text}".encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        "Referrer-Policy: no-referrer\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    writer.write(head.encode() + body)
    with suppress(OSError):
        await writer.drain()
