"""`/v1/openapi.json` and `/v1/schema/…`: made from the records, so that they cannot differ from the program."""

from __future__ import annotations

from functools import cache

from starlette.requests import Request
from starlette.responses import Response

from tau.records.base import encode
from tau.serve.openapi import openapi
from tau.serve.schemas import dialect_schema, host_schema
from tau.serve.web.replies import error_reply, json_reply
from tau.wire.dialects import all_dialects


class Schemas:
    async def openapi(self, request: Request) -> Response:
        return json_reply(_openapi())

    async def schema(self, request: Request) -> Response:
        found = _schema(request.path_params["name"][:64])
        return error_reply(404, "There is no such dialect.") if found is None else json_reply(found)


@cache
def _openapi() -> bytes:
    return encode(openapi())


def _schema(name: str) -> bytes | None:
    return _known(name) if name == "host" or any(one.name == name for one in all_dialects()) else None


@cache
def _known(name: str) -> bytes:
    if name == "host":
        return encode(host_schema())
    return encode(next(dialect_schema(one) for one in all_dialects() if one.name == name))
