"""Responses of agents: what they are to which call, and their data as records.

The records are those that tau sends. Other versions leave fields out, so what is
missing becomes UNSET or None where the record allows it; unknown fields are kept
in what `raw` shows. The tree of a session is nested as deep as the session is
long, so responses are read without a limit on nesting other than the interpreter's.
"""

from __future__ import annotations

from types import NoneType
from typing import Any, TypeVar, get_args, get_type_hints

from tau.errors import TauError
from tau.records.base import UNSET, BadRecord, Raw, Record, UnsetType, decode, encode, keep, parse, replace
from tau.records.messages import Stored, read_message
from tau.records.replies import BashResult

T = TypeVar("T", bound=Record)


class BadReply(TauError):
    """The agent answered something that is not an answer to what it was asked."""


class Envelope(Record):
    """`data` is left as JSON until it is known what it should be."""

    type: str
    id: Any = None
    command: str | None = None
    success: bool = False
    error: Any = None
    data: Raw = Raw()


class MessageList(Record):
    messages: list[Raw]


# pi has never sent these: `output` holds both streams.
ONLY_OURS: dict[type, dict[str, Any]] = {BashResult: {"stdout": "", "stderr": "", "signal": None}}


def envelope(line: bytes) -> tuple[Envelope, bytes]:
    """A response and its data, b"" if there is none."""
    try:
        found = decode(Envelope, line, nesting=None)
        return found, bytes(found.data)
    except BadRecord:  # half a character is only read this way
        value = parse(line, nesting=None)
        rest = {name: item for name, item in value.items() if name != "data"}
        return decode(Envelope, encode(rest)), encode(value["data"]) if "data" in value else b""


def read(kind: type[T], data: bytes, command: str) -> T:
    """The data of a response as a record; `raw` of it gives back what was sent."""
    try:
        return keep(decode(kind, data, nesting=None), data)
    except BadRecord as error:
        value = parse(data, nesting=None) if data else {}
        if not isinstance(value, dict):
            raise BadReply(f"The agent's answer to {command} cannot be read: {error}") from None
    try:
        return keep(_completed(kind, value), data or b"{}")
    except BadRecord as error:
        raise BadReply(f"The agent's answer to {command} cannot be read: {error}") from None


def read_or_none(kind: type[T], data: bytes, command: str) -> T | None:
    """The same where `null` is an answer."""
    return None if data in (b"", b"null") else read(kind, data, command)


def read_messages(data: bytes, command: str) -> list[Stored]:
    try:
        messages = [bytes(message) for message in decode(MessageList, data, nesting=None).messages]
    except BadRecord:
        value = parse(data, nesting=None) if data else None
        if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
            raise BadReply(f"The agent's answer to {command} holds no messages.") from None
        messages = [encode(message) for message in value["messages"]]
    try:
        return [read_message(message) for message in messages]
    except BadRecord as error:
        raise BadReply(f"The agent's answer to {command} holds what is no message: {error}") from None


def _completed(kind: type[T], value: dict[str, Any]) -> T:
    """With something in place of each field that may be absent, which is then taken out again."""
    given = {**ONLY_OURS.get(kind, {}), **value}
    absent: dict[str, Any] = {}
    hints = get_type_hints(kind)
    required = len(kind.__struct_fields__) - len(kind.__struct_defaults__)
    for name, wire_name in list(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))[:required]:
        types = get_args(hints[name])
        if wire_name in given or not types:
            continue
        if NoneType in types:
            given[wire_name] = None
        elif UnsetType in types:
            given[wire_name] = types[0]()
            absent[name] = UNSET
    return replace(decode(kind, encode(given), nesting=None), **absent)
