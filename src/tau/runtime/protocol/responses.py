"""Responses: the bytes of one, and where they are sent."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, Protocol

from tau.records.base import UNSET, SplicedList, UnsetType, encode
from tau.records.replies import Messages
from tau.wire.dialect import Dialect


class ResponseSink(Protocol):
    """Takes the lines of responses, in order; an Outbox is one."""

    def send_line(self, line: bytes) -> None: ...

    def send_large(self, pieces: Iterator[bytes], size: int) -> None:
        """Take one line as an iterator of pieces, which satisfies the contract of SplicedList."""


def send_response(
    sink: ResponseSink, dialect: Dialect, id: bytes, name: str, data: Any = UNSET, error: str | UnsetType = UNSET
) -> None:
    """Send a response in the dialect of the client. A long conversation is not copied into one bytes object."""
    if not dialect.responses:
        for line in dialect.substitute(name, data, error):
            sink.send_line(line)
    elif isinstance(data, Messages) and isinstance(data.messages, SplicedList):
        head, _, tail = response(id, name, Messages([]), error).rpartition(b"[]")
        sink.send_large(chain([head], data.messages, [tail]), data.messages.size)
    else:
        sink.send_line(response(id, name, data, error))


def response(id: bytes, name: str, data: Any, error: str | UnsetType) -> bytes:
    """Encode a response, with fields in the order of pi: id, type, command, success, data or error."""
    return b"".join(
        (
            b'{"id":%b,' % id if id else b"{",
            b'"type":"response","command":',
            encode(name),
            b',"success":true' if error is UNSET else b',"success":false,"error":' + encode(error),
            b',"data":' + encode(data) if data is not UNSET else b"",
            b"}",
        )
    )
