"""What an agent says unasked, as records, and nothing of it lost.

Known events are the records that tau itself speaks inside; the few that only
dialects have, or only pi, are declared here. Every record keeps the bytes it was read from, and `raw`
gives them back as they were, with whatever this version does not know. Agents of
other versions differ in small things; what can be read in our words is, and the
rest is an UnknownEvent. Nothing here fails because a peer is older or newer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, cast

from tau.records.base import UNSET, BadRecord, Record, UnsetType, decode, encode, keep, parse, replace, wire
from tau.records.dialogs import AnyUiRequest, UiRequest
from tau.records.events import (
    AgentEnd,
    AnyEvent,
    CompactionResult,
    Event,
    MessageEnd,
    MessageStart,
)
from tau.records.messages import User, read_message


class AutoCompactionStart(Event, tag="auto_compaction_start"):
    """What most dialects have for a compaction that nobody asked for."""

    reason: Literal["threshold", "overflow"]


class AutoCompactionEnd(Event, tag="auto_compaction_end"):
    result: CompactionResult | None = None
    aborted: bool = False
    will_retry: bool = False
    error_message: str | UnsetType = UNSET


class EntryAppended(Event, tag="entry_appended"):
    entry: Any


class UnknownEvent(Record):
    """An event that this version does not know; `raw` is all of it."""

    type: str
    raw: dict[str, Any]


OfDialects = AutoCompactionStart | AutoCompactionEnd | EntryAppended
RpcEvent = AnyEvent | OfDialects | AnyUiRequest | UnknownEvent

EVENTS: Any = AnyEvent | OfDialects
SHAPES: dict[str, Any] = {"extension_ui_request": AnyUiRequest}


class Head(Record):
    """As much of a line as it takes to know what it is. `willRetry` is of interest for idle.py."""

    type: str
    will_retry: Any = False


def raw(record: Record) -> dict[str, Any]:
    """An event or a reply as the agent sent it: every field, in the names of the wire."""
    value: Any = record.raw if isinstance(record, UnknownEvent) else parse(wire(record), nesting=None)
    return cast("dict[str, Any]", value)


def type_of(event: RpcEvent) -> str:
    """The type of an event, as it is on the wire."""
    if isinstance(event, UnknownEvent):
        return event.type
    return "extension_ui_request" if isinstance(event, UiRequest) else str(event.__struct_config__.tag)


def read_event(kind: str, line: bytes) -> RpcEvent:
    """One line that was said to be an event of this type."""
    shape = SHAPES.get(kind, EVENTS)
    try:
        return keep(cast("RpcEvent", decode(shape, line, nesting=None)), line)
    except BadRecord:
        value = parse(line, nesting=None)
    mended = MENDS.get(kind, _as_it_is)(value)
    try:
        event = cast("RpcEvent", decode(shape, encode(mended), nesting=None))
    except BadRecord:
        event = _with_foreign_messages(kind, mended) or UnknownEvent(kind, value)
    return keep(event, line)


def _as_it_is(value: dict[str, Any]) -> dict[str, Any]:
    return value


def _started(event: dict[str, Any]) -> dict[str, Any]:
    """pi 0.84 and newer: an answer that begins has no reason yet to have stopped."""
    message = event.get("message")
    if isinstance(message, dict) and message.get("stopReason") == "pending":
        return {**event, "message": {**message, "stopReason": "stop"}}
    return event


def _named_call(event: dict[str, Any]) -> dict[str, Any]:
    """Before pi 0.84 the start of a tool call did not say of which tool; the message so far does."""
    delta = event.get("assistantMessageEvent")
    if not isinstance(delta, dict) or delta.get("type") != "toolcall_start":
        return event
    try:
        block = delta["partial"]["content"][delta["contentIndex"]]
        named = {"id": str(block["id"]), "toolName": str(block["name"])}
    except (KeyError, IndexError, TypeError):
        named = {"id": "", "toolName": ""}
    return {**event, "assistantMessageEvent": {**named, **delta}}


def _with_result(event: dict[str, Any]) -> dict[str, Any]:
    return {"result": None, **event}


MENDS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "message_start": _started,
    "message_update": _named_call,
    "auto_compaction_end": _with_result,
}


def _with_foreign_messages(kind: str, value: dict[str, Any]) -> AgentEnd | MessageStart | MessageEnd | None:
    """Roles that we do not know (pi 0.86 has `system`) are kept as `Other` among those that we do."""
    nobody = User("", 0)
    try:
        match kind, value:
            case "agent_end", {"messages": list(messages)}:
                end = decode(AgentEnd, encode({**value, "messages": []}))
                return replace(end, messages=[_message(message) for message in messages])
            case "message_start", {"message": dict(message)}:
                return replace(MessageStart(nobody), message=_message(message))
            case "message_end", {"message": dict(message)}:
                return replace(MessageEnd(nobody), message=_message(message))
    except BadRecord:
        pass
    return None


def _message(value: Any) -> Any:
    return read_message(encode(value))
