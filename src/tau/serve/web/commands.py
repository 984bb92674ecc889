"""`POST /v1/sessions/{id}/commands`: commands as JSON or NDJSON, and prompts that wait for their answer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tau.errors import CommandError
from tau.records.base import BadRecord, encode, parse
from tau.records.replies import Result
from tau.serve.live_session import LiveSession
from tau.serve.request_checks import media_type
from tau.serve.web.bodies import ClientGone, Receive, read_body
from tau.serve.web.calls import Answer, Call, parse_answer, status_of
from tau.serve.web.replies import NDJSON, access_of, error_reply, failure_reply, json_reply
from tau.serve.web.results import ResultWaiter
from tau.serve.web.site import Site
from tau.serve.web.streaming import CallStream

MAX_WAIT_S = 3600.0
_TRACE_PARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(?:-[\w-]{0,100})?", re.ASCII)
_WAIT = re.compile(r"(?:^|,)\s*wait\s*=\s*(\d{1,5})\s*(?:;[^,]*)?(?=,|$)")


class Commands:
    def __init__(self, site: Site) -> None:
        self._site = site

    async def post(self, request: Request) -> Response:
        body = await read_body(request.receive)
        many = media_type(request.headers.get("content-type")) == NDJSON
        if not many:
            try:
                body = one_line(body)
            except BadRecord as error:
                return error_reply(400, f"The body is not valid JSON: {error}")
            if not body:
                return error_reply(400, "The body is empty.")
        if (parent := request.headers.get("traceparent")) is not None:
            body = b"\n".join(with_trace_parent(line, parent) for line in body.split(b"\n"))
        call = Call(self._site.host, access_of(request), "http")
        try:
            refused = await self._greet(call, request)
            if refused is not None:
                await call.close()
                return refused
            if many:
                return CallStream(call, _answers(call, body), NDJSON)
            return await self._one(call, body, request)
        finally:
            if not many:
                await call.close()

    async def _greet(self, call: Call, request: Request) -> Response | None:
        """Bind the channel to the session, at the end of its stream: no event and no snapshot is wanted."""
        session = request.path_params["id"]
        dialect = request.query_params.get("dialect")
        live = self._site.host.live(session)
        after = None if live is None else {"stream": live.stream.id, "seq": live.stream.last}
        greeting = await call.hello(
            session=session, dialect=dialect, after=after, numbers=dialect is None, client=_name(request)
        )
        return None if greeting.success else failure_reply(greeting)

    async def _one(self, call: Call, line: bytes, request: Request) -> Response:
        live = self._site.host.live(request.path_params["id"])
        place = 0 if live is None else live.stream.last  # for dialects whose responses have no `asOf`
        wait_s = preferred_wait(request.headers.get("prefer"))
        prompt = _prompt(line)
        repeated = live is not None and prompt is not None and prompt.get("key") in live.keys
        await call.send(line)
        if prompt is None or wait_s is None:
            call.end_input()
        answer = await call.response()
        if answer is None:  # an answer to a dialog has no response
            return Response(status_code=204)
        parsed = parse_answer(answer)
        status = status_of(parsed)
        headers = {"retry_after": "1"} if status == 503 else {}
        if prompt is None or wait_s is None or status != 200:
            return json_reply(answer, status, **headers)
        if live is None:
            return json_reply(answer, 202)
        with ResultWaiter(live, max(parsed.as_of, place)) as waiter:
            if not waiter.settled and not _will_settle(live, prompt, parsed, repeated):
                return json_reply(answer)
            try:
                async with asyncio.timeout(wait_s):
                    result = await _unless_gone(request.receive, waiter.result())
            except (TimeoutError, CommandError):
                return json_reply(answer, 202)
        return json_reply(result, preference_applied=f"wait={wait_s:g}")


def _will_settle(live: LiveSession, prompt: dict[str, Any], answer: Answer, repeated: bool) -> bool:
    """True if a prompt that was accepted has a run that goes on."""
    data = parse(bytes(answer.data))
    disposition = data.get("disposition") if isinstance(data, dict) else None  # not in all dialects
    if disposition == "handled":
        return False
    if repeated and disposition != "queued":
        return prompt["key"] in live.run_keys.values()
    return live.streaming


async def _unless_gone(receive: Receive, work: Coroutine[Any, Any, Result]) -> Result:
    """Do this as long as the client is there. Raises ClientGone if it closes the connection first."""
    doing, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_end_of(receive))
    try:
        await asyncio.wait({doing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise ClientGone
        return doing.result()
    finally:
        doing.cancel()
        leaving.cancel()


async def _end_of(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _answers(call: Call, body: bytes) -> AsyncIterator[bytes]:
    """The responses to many commands, in the order in which they come."""
    sending = asyncio.create_task(_send(call, body))
    try:
        async for line in call.responses():
            yield line + b"\n"
    finally:
        sending.cancel()


async def _send(call: Call, body: bytes) -> None:
    await call.send(body)
    call.end_input()


def one_line(body: bytes) -> bytes:
    """A JSON text as one line. Raises BadRecord."""
    body = body.strip()
    if b"\n" in body or b"\r" in body:
        parse(body)  # line breaks are white space then, and not inside strings
        return body.replace(b"\r", b" ").replace(b"\n", b" ")
    return body


def with_trace_parent(line: bytes, parent: str) -> bytes:
    """A prompt with the header `traceparent` of its request as a field, unless it has one; other commands unchanged."""
    if not _TRACE_PARENT.fullmatch(parent) or b'"prompt"' not in line:
        return line
    try:
        value: Any = parse(line)
    except BadRecord:
        return line
    if not isinstance(value, dict) or value.get("type") != "prompt" or "traceparent" in value:
        return line
    return line.rstrip()[:-1] + b',"traceparent":' + encode(parent) + b"}"


def preferred_wait(value: str | None) -> float | None:
    """The seconds of `Prefer: wait=N`."""
    found = _WAIT.search(value or "")
    return min(float(found[1]), MAX_WAIT_S) if found else None


def _prompt(line: bytes) -> dict[str, Any] | None:
    """The fields of a prompt; None for another command."""
    try:
        value: Any = parse(line)
    except BadRecord:
        return None
    return value if isinstance(value, dict) and value.get("type") == "prompt" else None


def _name(request: Request) -> str:
    return encode(request.headers.get("user-agent", "")[:64])[1:-1].decode()
