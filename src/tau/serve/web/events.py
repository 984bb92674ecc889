"""`GET /v1/sessions/{id}/events`: the stream of a session as server-sent events, or as lines (NDJSON).

The id of an event is `<stream>:<seq>`; a client that sends it back, as `Last-Event-ID` or `?after=`, continues there.
A comment at the beginning, `: attached {…}`, has the session, its stream, and whether the client continues.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tau.records.base import BadRecord, Record, decode, encode
from tau.records.host_events import Attached
from tau.serve.request_checks import media_type
from tau.serve.web.calls import Call
from tau.serve.web.gate import abort
from tau.serve.web.replies import NDJSON, access_of, error_reply, failure_reply
from tau.serve.web.site import Site
from tau.serve.web.streaming import CallStream

COMMENT_INTERVAL_S = 15.0
RETRY_MS = 1000
ABORT_DELAY_S = 2.0
_PLACE = re.compile(r"([A-Za-z0-9_-]{1,64}={0,2}):(\d{1,15})")
_SEQ = re.compile(rb',"seq":(\d+)\}$')
_SNAPSHOT = b'{"type":"snapshot"'


class Place(Record):
    """Where a snapshot stands."""

    stream: str
    seq: int


class AttachedData(Record):
    attached: Attached


class Events:
    def __init__(self, site: Site) -> None:
        self._site = site

    async def get(self, request: Request) -> Response:
        place = request.query_params.get("after") or request.headers.get("last-event-id")
        after: dict[str, Any] | None = None
        if place:
            found = _PLACE.fullmatch(place)
            if found is None:
                return error_reply(400, "after: expected <stream>:<seq>")
            after = {"stream": found[1], "seq": int(found[2])}
        call = Call(self._site.host, access_of(request), "sse")
        greeting = await call.hello(
            session=request.path_params["id"],
            dialect=request.query_params.get("dialect"),
            entry=request.query_params.get("entry"),
            after=after,
            numbers=request.query_params.get("numbers") != "false",
        )
        if not greeting.success:
            await call.close()
            return failure_reply(greeting)
        stop = AbortLater(request)
        call.on_end(stop.start)
        if wants_lines(request.headers.get("accept")):
            return CallStream(call, _lines(call), NDJSON, stop.cancel)
        attached = decode(AttachedData, bytes(greeting.data)).attached
        return CallStream(call, _events(call, attached), "text/event-stream", stop.cancel)


def wants_lines(accept: str | None) -> bool:
    return NDJSON in [media_type(part) for part in (accept or "").split(",")]


class AbortLater:
    """Ends the connection of a client that does not read, some time after its channel has ended."""

    def __init__(self, request: Request) -> None:
        self._scope = request.scope
        self._timer: asyncio.TimerHandle | None = None
        self._done = False

    def start(self) -> None:
        if not self._done:
            self._timer = asyncio.get_running_loop().call_later(ABORT_DELAY_S, abort, self._scope)

    def cancel(self) -> None:
        """The response is complete."""
        self._done = True
        if self._timer is not None:
            self._timer.cancel()


async def _lines(call: Call) -> AsyncIterator[bytes]:
    while (line := await call.line()) is not None:
        yield line + b"\n"


async def _events(call: Call, attached: Attached) -> AsyncIterator[bytes]:
    next_line = asyncio.ensure_future(call.line())
    try:
        yield b"retry: %d\n\n: attached %b\n\n" % (RETRY_MS, encode(attached))
        while True:
            done, _ = await asyncio.wait({next_line}, timeout=COMMENT_INTERVAL_S)
            if not done:
                yield b": still here\n\n"
                continue
            line = next_line.result()
            if line is None:
                return
            yield as_event(line, attached.stream)
            next_line = asyncio.ensure_future(call.line())
    finally:
        next_line.cancel()


def as_event(line: bytes, stream: str) -> bytes:
    """A record as a server-sent event. Records of the channel itself have no id."""
    seq = _SEQ.search(line, max(0, len(line) - 40))
    if seq is not None:
        return b"id: %b:%b\ndata: %b\n\n" % (stream.encode(), seq[1], line)
    if line.startswith(_SNAPSHOT):
        try:
            place = decode(Place, line)
        except BadRecord:
            return b"data: %b\n\n" % line
        return b"id: %b:%d\ndata: %b\n\n" % (place.stream.encode(), place.seq, line)
    return b"data: %b\n\n" % line
