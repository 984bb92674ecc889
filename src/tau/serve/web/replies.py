"""HTTP answers: JSON bodies, errors outside of commands, and the fields of a request."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tau.records.base import BadRecord, encode, parse
from tau.serve.access import Access
from tau.serve.request_checks import Refusal
from tau.serve.web.bodies import BadBody, read_body
from tau.serve.web.calls import Answer, status_of
from tau.serve.web.gate import ACCESS

JSON = "application/json"
NDJSON = "application/x-ndjson"
MAX_SMALL_BODY = 64 * 1024


def access_of(request: Request) -> Access:
    access: Access = request.scope[ACCESS]
    return access


def json_reply(body: Any, status: int = 200, **headers: str) -> Response:
    data = body if isinstance(body, bytes) else encode(body)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(data, status, named, media_type=JSON)


def error_reply(status: int, text: str) -> Response:
    headers = {"retry_after": "1"} if status == 503 else {}
    return json_reply({"error": text}, status, **headers)


def failure_reply(answer: Answer) -> Response:
    """The answer to a command of the host that failed."""
    return error_reply(status_of(answer), answer.error)


async def read_object(request: Request, limit: int = MAX_SMALL_BODY) -> dict[str, Any]:
    """The body as a JSON object. Raises BadBody."""
    body = await read_body(request.receive, limit)
    try:
        value = parse(body)
    except BadRecord as error:
        raise BadBody(Refusal(400, "body", f"The body is not valid JSON: {error}")) from None
    if not isinstance(value, dict):
        raise BadBody(Refusal(400, "body", "The body must be a JSON object."))
    return value


def flag(request: Request, name: str) -> bool:
    """A query parameter without a value, or with one that is not false."""
    value = request.query_params.get(name)
    return value is not None and value not in ("0", "false")


def number(request: Request, name: str, default: int, largest: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise BadBody(Refusal(400, "body", f"{name}: expected a number"))
    return min(int(text), largest)
