"""The ASGI application: routes, behind the gate. It can be mounted under any prefix of another application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from tau.serve.web.commands import Commands
from tau.serve.web.events import Events
from tau.serve.web.gate import App, Gate, Receive, Scope, Send
from tau.serve.web.logins import Logins
from tau.serve.web.monitoring import Monitoring
from tau.serve.web.page import Page
from tau.serve.web.replies import error_reply
from tau.serve.web.schemas import Schemas
from tau.serve.web.sessions import Sessions
from tau.serve.web.site import Site
from tau.serve.web.transcript import Transcript
from tau.serve.web.websocket import WebSocketChannel

Endpoint = Callable[[Request], Awaitable[Response]]


def routes(site: Site, page: Page) -> list[Route | WebSocketRoute]:
    sessions, commands, events = Sessions(site), Commands(site), Events(site)
    logins, monitoring, schemas = Logins(site), Monitoring(site), Schemas()
    transcript = Transcript(site, sessions.log)

    async def websocket(socket: WebSocket) -> None:
        await WebSocketChannel(site, socket).run()

    table: list[tuple[str, str, Endpoint]] = [
        ("GET", "/v1/sessions", sessions.list),
        ("POST", "/v1/sessions", sessions.open),
        ("GET", "/v1/sessions/{id}", sessions.snapshot),
        ("DELETE", "/v1/sessions/{id}", sessions.close),
        ("POST", "/v1/sessions/{id}/commands", commands.post),
        ("GET", "/v1/sessions/{id}/events", events.get),
        ("GET", "/v1/sessions/{id}/cards", transcript.cards),
        ("GET", "/v1/sessions/{id}/outline", transcript.outline),
        ("GET", "/v1/sessions/{id}/overview", transcript.overview),
        ("GET", "/v1/sessions/{id}/files", transcript.files),
        ("GET", "/v1/sessions/{id}/export", sessions.export),
        ("GET", "/v1/host", sessions.host),
        ("POST", "/v1/login", logins.login),
        ("POST", "/v1/logout", logins.logout),
        ("GET", "/v1/openapi.json", schemas.openapi),
        ("GET", "/v1/schema/{name}.json", schemas.schema),
        ("GET", "/healthz", monitoring.health),
        ("GET", "/readyz", monitoring.ready),
        ("GET", "/metrics", monitoring.metrics),
        ("GET", "/", page.index),
        ("GET", "/static/{name}", page.static),
        ("GET", "/favicon.ico", page.icon),
    ]
    return [
        *(Route(path, endpoint, methods=[method]) for method, path, endpoint in table),
        WebSocketRoute("/v1/ws", websocket),
    ]


class _Behind:
    """The gate as a middleware of Starlette, inside of its error handling. Starts what the site does by itself."""

    def __init__(self, app: App, site: Site) -> None:
        self._gate = Gate(app, site.gate)
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            self._site.start()
        await self._gate(scope, receive, send)


def create_app(site: Site, page: Page | None = None, *, owns_host: bool = False) -> Starlette:
    """The application. With `owns_host`, its host is closed at the end of the application's life span."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        site.start()
        try:
            yield
        finally:
            await site.close()
            if owns_host:
                await site.host.close()

    app = Starlette(
        routes=routes(site, Page() if page is None else page),
        exception_handlers={HTTPException: _http_error},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.add_middleware(_Behind, site=site)
    app.state.site = site
    app.state.host = site.host
    return app


async def _http_error(request: Request, error: Exception) -> Response:
    """404 and 405 of the routes."""
    assert isinstance(error, HTTPException)
    text = {404: "There is nothing here.", 405: "This method is not supported here."}.get(error.status_code)
    return error_reply(error.status_code, text or error.detail)
