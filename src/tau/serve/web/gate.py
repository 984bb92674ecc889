"""Gate: the ASGI layer in front of the routes. It checks each request head, adds security headers, and logs.

The log has the method, the path without its query, the status and the name of the client; never a header or a body.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from tau.records.base import encode
from tau.serve.access import Access
from tau.serve.rates import Seldom
from tau.serve.request_checks import TOKEN_PATTERN, Head, Refusal, base_url
from tau.serve.request_gate import ANYONE, RequestGate
from tau.serve.web.bodies import BadBody, ClientGone
from tau.serve.web.connections import EXTENSION

logger = logging.getLogger(__name__)
access_log = logging.getLogger("tau.serve.access")

ACCESS = "tau.access"  # in the scope: the Access of the client
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types tau"
)
SECURITY_HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
TOO_MANY_CONNECTIONS = Refusal(429, "rate", "This login has too many open connections. Close some of them.")
WARNING_INTERVAL_S = 1.0
NO_STORE = (b"cache-control", b"no-store")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Gate:
    def __init__(self, app: App, checks: RequestGate) -> None:
        self._app = app
        self._checks = checks
        self._may_warn = Seldom(WARNING_INTERVAL_S)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        head = head_of(scope)
        decision = self._checks.check(head, address_of(scope), asyncio.get_running_loop().time())
        if isinstance(decision, Refusal):
            self._warn(head, decision)
            _log(head, decision.status, decision.why)
            await refuse(scope, send, decision)
            return
        if decision is not ANYONE and not prove(scope, decision):
            _log(head, TOO_MANY_CONNECTIONS.status, TOO_MANY_CONNECTIONS.why)
            await refuse(scope, send, TOO_MANY_CONNECTIONS)
            return
        scope[ACCESS] = decision
        if head.websocket:
            _log(head, 101, decision.name)
            await self._app(scope, receive, send)
        else:
            await self._respond(head, decision, scope, receive, send)

    def _warn(self, head: Head, refusal: Refusal) -> None:
        """Say what the user should know, but not so often that anyone could fill the log."""
        if refusal.note and self._may_warn.allows(asyncio.get_running_loop().time()):
            logger.warning("%s: %s", _shown(head), refusal.note)

    async def _respond(self, head: Head, access: Access, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                _log(head, message["status"], access.name)
                message["headers"] = with_security_headers(message.get("headers", []))
            await send(message)

        try:
            await self._app(scope, receive, send_safely)
        except BadBody as error:
            self._checks.refused["body"] += 1
            _log(head, error.refusal.status, access.name)
            await refuse(scope, send, error.refusal)
        except ClientGone:
            _log(head, 499, access.name)


def head_of(scope: Scope) -> Head:
    """The request head of an ASGI scope, with the path inside the application."""
    path: str = scope["path"]
    prefix: str = scope.get("root_path", "")
    if prefix and path.startswith(prefix):
        path = path[len(prefix) :] or "/"
    server = scope.get("server") or ("", None)
    return Head(
        "GET" if scope["type"] == "websocket" else scope["method"],
        path,
        scope.get("query_string", b"").decode("latin-1"),
        [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]],
        scope["type"] == "websocket",
        base_url(server[0].partition("%")[0], server[1]) if server[1] else "",
    )


def address_of(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""


def prove(scope: Scope, access: Access) -> bool:
    """The client of this connection has shown a credential. False if that has too many connections already."""
    connection = scope.get("extensions", {}).get(EXTENSION)
    return connection is None or connection.prove(access.credential or access.name)


def abort(scope: Scope) -> None:
    """End this connection at once, with what is not written yet."""
    connection = scope.get("extensions", {}).get(EXTENSION)
    if connection is not None:
        connection.abort()


def with_security_headers(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    names = {name.lower() for name, _ in headers}
    added = [(name, value) for name, value in (*SECURITY_HEADERS, NO_STORE) if name not in names]
    return [*headers, *added]


async def refuse(scope: Scope, send: Send, refusal: Refusal) -> None:
    """Answer without reading the body. The connection is closed: what is left of the body is not read."""
    body = encode({"error": refusal.text})
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    if refusal.status == 429:
        headers.append((b"retry-after", b"60" if "credential" in refusal.text else b"1"))
    kind = "http.response"
    if scope["type"] == "websocket":
        kind = "websocket.http.response"
        if kind not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": 1008})
            return
    await send({"type": f"{kind}.start", "status": refusal.status, "headers": with_security_headers(headers)})
    await send({"type": f"{kind}.body", "body": body})


def _log(head: Head, status: int, note: str) -> None:
    access_log.info("%s %d %s", _shown(head), status, ascii(note)[1:-1])


def _shown(head: Head) -> str:
    """Method and path, without secrets and control characters."""
    return ascii(f"{head.method} {TOKEN_PATTERN.sub('<token>', head.path)}")[1:-1]
