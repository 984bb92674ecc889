"""Events of an agent as records, without losing any field.

Known events are tau's own records; those that only some dialects or only pi have are declared here. Every record
keeps the bytes it was decoded from, and `raw` returns them with all unknown fields. Agents of other versions differ
in small ways: what can be converted to our records is converted, and the rest is an UnknownEvent. Decoding never
fails because the agent is older or newer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, cast, get_args

from tau.records.base import (
    UNSET,
    BadRecord,
    Record,
    UnsetType,
    attach_source,
    decode,
    encode,
    parse,
    replace,
    wire_json,
)
from tau.records.dialogs import AnyUiRequest, UiRequest
from tau.records.events import (
    AgentEnd,
    AnyEvent,
    CompactionResult,
    Event,
    MessageEnd,
    MessageStart,
)
from tau.records.host_events import (
    DialogResolved,
    HostClosing,
    Pong,
    SessionChanged,
    SessionClosed,
    SessionOpened,
    SessionStatus,
    Snapshot,
)
from tau.records.lenient import read_leniently
from tau.records.lines import read_message
from tau.records.messages import User


class AutoCompactionStart(Event, tag="auto_compaction_start"):
    """Start of an automatic compaction, in most dialects."""

    reason: Literal["threshold", "overflow"]


class AutoCompactionEnd(Event, tag="auto_compaction_end"):
    """End of an automatic compaction, in most dialects."""

    result: CompactionResult | None = None
    aborted: bool = False
    will_retry: bool = False
    error_message: str | UnsetType = UNSET


class UnknownEvent(Record):
    """An event of a type that this version does not know; `raw` holds all of it."""

    type: str
    raw: dict[str, Any]


DialectEvent = AutoCompactionStart | AutoCompactionEnd
SessionListEvent = SessionOpened | SessionClosed | SessionStatus
HostEvent = Snapshot | SessionChanged | DialogResolved | HostClosing | Pong | SessionListEvent
RpcEvent = AnyEvent | DialectEvent | HostEvent | AnyUiRequest | UnknownEvent

EVENTS: Any = AnyEvent | DialectEvent | HostEvent
HOST_RECORDS: dict[str, type[Record]] = {str(kind.__struct_config__.tag): kind for kind in get_args(HostEvent)}
SHAPES: dict[str, Any] = {"extension_ui_request": AnyUiRequest}


class LineHead(Record):
    """The fields that identify a line. `willRetry` is used by idle.py."""

    type: str
    will_retry: Any = False


def raw(record: Record) -> dict[str, Any]:
    """Return an event or reply as the agent sent it: every field, with wire names."""
    value: Any = record.raw if isinstance(record, UnknownEvent) else parse(wire_json(record), nesting=None)
    return cast("dict[str, Any]", value)


def type_of(event: RpcEvent) -> str:
    """Return the wire type of an event."""
    if isinstance(event, UnknownEvent):
        return event.type
    return "extension_ui_request" if isinstance(event, UiRequest) else str(event.__struct_config__.tag)


def read_event(kind: str, line: bytes) -> RpcEvent:
    """Decode one line that is an event of this type."""
    shape = SHAPES.get(kind, EVENTS)
    try:
        return attach_source(cast("RpcEvent", decode(shape, line, nesting=None)), line)
    except BadRecord:
        value = parse(line, nesting=None)
    if kind in HOST_RECORDS:
        return attach_source(_host_event(kind, value), line)
    converted = CONVERSIONS.get(kind, _unchanged)(value)
    try:
        event = cast("RpcEvent", decode(shape, encode(converted), nesting=None))
    except BadRecord:
        event = _with_foreign_messages(kind, converted) or UnknownEvent(kind, value)
    return attach_source(event, line)


def _host_event(kind: str, value: dict[str, Any]) -> RpcEvent:
    try:
        return cast("RpcEvent", read_leniently(HOST_RECORDS[kind], value))
    except BadRecord:
        return UnknownEvent(kind, value)


def _unchanged(value: dict[str, Any]) -> dict[str, Any]:
    return value


def _with_tool_name(event: dict[str, Any]) -> dict[str, Any]:
    """Before pi 0.84, toolcall_start did not name the tool; the partial message does."""
    delta = event.get("assistantMessageEvent")
    if not isinstance(delta, dict) or delta.get("type") != "toolcall_start":
        return event
    try:
        block = delta["partial"]["content"][delta["contentIndex"]]
        tool = {"id": str(block["id"]), "toolName": str(block["name"])}
    except (KeyError, IndexError, TypeError):
        tool = {"id": "", "toolName": ""}
    return {**event, "assistantMessageEvent": {**tool, **delta}}


def _with_result(event: dict[str, Any]) -> dict[str, Any]:
    return {"result": None, **event}


CONVERSIONS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "message_update": _with_tool_name,
    "auto_compaction_end": _with_result,
}


def _with_foreign_messages(kind: str, value: dict[str, Any]) -> AgentEnd | MessageStart | MessageEnd | None:
    """Decode messages leniently: pi 0.84 has a stop reason "pending", 0.86 the role `system`, which is an `Other`."""
    placeholder = User("", 0)
    try:
        match kind, value:
            case "agent_end", {"messages": list(messages)}:
                end = decode(AgentEnd, encode({**value, "messages": []}))
                return replace(end, messages=[_message(message) for message in messages])
            case "message_start", {"message": dict(message)}:
                return replace(MessageStart(placeholder), message=_message(message))
            case "message_end", {"message": dict(message)}:
                return replace(MessageEnd(placeholder), message=_message(message))
    except BadRecord:
        pass
    return None


def _message(value: Any) -> Any:
    return read_message(encode(value))
