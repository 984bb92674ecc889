"""`/healthz`, `/readyz` and `/metrics`."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from tau.serve.metrics import render
from tau.serve.web.replies import error_reply
from tau.serve.web.site import Site

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


class Monitoring:
    def __init__(self, site: Site) -> None:
        self._site = site

    async def health(self, request: Request) -> Response:
        """The event loop turns."""
        return PlainTextResponse("ok")

    async def ready(self, request: Request) -> Response:
        """New clients and sessions are accepted."""
        return PlainTextResponse("ok") if self._site.host.ready else error_reply(503, "The host is closing or full.")

    async def metrics(self, request: Request) -> Response:
        site = self._site
        text = render(site.host, site.gate.refused, site.loop_lag, site.connections)
        return Response(text, media_type=PROMETHEUS)
