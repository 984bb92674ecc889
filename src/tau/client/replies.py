"""Responses of an agent: envelopes, and their data as records.

The records are those that tau sends. Other versions leave fields out: a missing field becomes UNSET or None where the
record allows it. Unknown fields are kept and visible through `raw`. A session tree is nested as
deeply as the session is long, so responses are decoded without our own nesting limit.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

from tau.errors import TauError
from tau.records.base import BadRecord, Raw, Record, attach_source, decode, encode, parse
from tau.records.lenient import read_leniently
from tau.records.lines import read_message
from tau.records.messages import StoredMessage
from tau.records.replies import BashResult

T = TypeVar("T", bound=Record)


class BadReply(TauError):
    """The agent's response does not have the shape that the command requires."""


class Envelope(Record):
    """`data` stays JSON until its type is known."""

    type: str
    id: Any = None
    command: str | None = None
    success: bool = False
    error: Any = None
    data: Raw = Raw()


class MessageList(Record):
    messages: list[Raw]


# Fields that pi never sends: its `output` holds both streams.
TAU_ONLY_FIELDS: dict[type, dict[str, Any]] = {BashResult: {"stdout": "", "stderr": "", "signal": None}}


def envelope(line: bytes) -> tuple[Envelope, bytes]:
    """Decode a response. Returns it with the JSON of its data, b"" if there is none."""
    reply = decode(Envelope, line, nesting=None)
    return reply, bytes(reply.data)


def read(kind: type[T], data: bytes, command: str) -> T:
    """Decode the data of a response; `raw` returns what was sent. Raises BadReply."""
    try:
        return attach_source(decode(kind, data, nesting=None), data)
    except BadRecord as error:
        value = parse(data, nesting=None) if data else {}
        if not isinstance(value, dict):
            raise BadReply(f"The agent's answer to {command} cannot be read: {error}") from None
    try:
        return attach_source(cast("T", read_leniently(kind, {**TAU_ONLY_FIELDS.get(kind, {}), **value})), data or b"{}")
    except BadRecord as error:
        raise BadReply(f"The agent's answer to {command} cannot be read: {error}") from None


def read_or_none(kind: type[T], data: bytes, command: str) -> T | None:
    """Like `read`, for commands whose data may be null."""
    return None if data in (b"", b"null") else read(kind, data, command)


def read_messages(data: bytes, command: str) -> list[StoredMessage]:
    try:
        messages = [bytes(message) for message in decode(MessageList, data, nesting=None).messages]
    except BadRecord:
        value = parse(data, nesting=None) if data else None
        if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
            raise BadReply(f"The agent's answer to {command} contains no messages.") from None
        messages = [encode(message) for message in value["messages"]]
    try:
        return [read_message(message) for message in messages]
    except BadRecord as error:
        raise BadReply(f"The agent's answer to {command} contains an invalid message: {error}") from None
