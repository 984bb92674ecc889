"""Dialect of December 2025, the first protocol: commands in, events out, no responses.

Errors are `error` events. A prompt during a run is queued: pi of that time started a second run in parallel, which no
client can have wanted. `get_protocol`, which no client of that time sends, is answered here too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from tau.records import commands as c
from tau.records import events as e
from tau.records.base import UNSET, Record, UnsetType, derive_record
from tau.records.replies import Protocol
from tau.wire.dialect import COMMANDS, OMITTED, Form, ResponseEvents
from tau.wire.dialects.pi_2026_03 import DIALECT as PI_2026_03

KNOWN = (c.Prompt, c.Abort, c.Compact, c.GetProtocol)


class Error(e.Event, tag="error"):
    """Something went wrong."""

    error: str


class Compaction(e.Event, tag="compaction"):
    """The older part of the conversation was replaced by a summary; `auto` if no client requested it.

    `firstKeptEntryIndex` is the line of the session file, counted from 0.
    """

    timestamp: str | UnsetType
    summary: str
    first_kept_entry_index: int | UnsetType
    tokens_before: int
    auto: Literal[True] | UnsetType = UNSET


class ProtocolTold(e.Event, tag="protocol"):
    """The answer to `get_protocol`."""

    data: Protocol


ToolEnd = derive_record(e.ToolEnd, without=("duration_ms",), types={"result": e.Outcome | str})


def _tool_end(event: e.ToolEnd) -> Sequence[e.Event]:
    """The result of a failed tool is a string."""
    result: Any = event.result
    if event.is_error:
        result = "\n".join(getattr(block, "text", "") for block in event.result.content)
    return (ToolEnd(event.tool_call_id, event.tool_name, result, event.is_error),)


def _compaction(result: e.CompactionResult, auto: Literal[True] | UnsetType = UNSET) -> Compaction:
    return Compaction(result.timestamp, result.summary, result.first_kept_entry_index, result.tokens_before, auto)


def _compaction_end(event: e.CompactionEnd) -> Sequence[e.Event]:
    if event.reason == "manual":
        return ()
    if event.result is not None:
        return (_compaction(event.result, auto=True),)
    return (Error(event.error_message),) if event.error_message is not UNSET else ()


def _error(event: Any) -> Sequence[e.Event]:
    return (Error(event.error),)


def _damage_error(event: e.SessionDamaged) -> Sequence[e.Event]:
    return (Error(f"{event.session_file}: {'; '.join(event.problems)}"),)


def _response_events(name: str, data: Any, error: Any) -> Sequence[Record]:
    if error is not UNSET:
        return (Error(f"Compaction failed: {error}" if name == "compact" else error),)
    if isinstance(data, e.CompactionResult):
        return (_compaction(data),)
    return (ProtocolTold(data),) if isinstance(data, Protocol) else ()


DIALECT = PI_2026_03.derive(
    name="2025-12",
    about="December 2025: no responses, attachments, `compaction` and `error` events",
    pi="0.13.2",
    responses=False,
    dialogs=False,
    session_line=False,
    answers=ResponseEvents((Error, Compaction, ProtocolTold), _response_events),
    events={
        e.ToolUpdate: OMITTED,
        e.ToolEnd: Form((ToolEnd,), _tool_end),
        e.ToolRequest: OMITTED,
        e.ToolRequestCancelled: OMITTED,
        e.CompactionStart: OMITTED,
        e.CompactionEnd: Form((Compaction, Error), _compaction_end),
        e.AutoRetryStart: OMITTED,
        e.AutoRetryEnd: OMITTED,
        e.ExtensionError: Form((Error,), _error),
        e.SessionWriteFailed: Form((Error,), _error),
        e.SessionWriteRecovered: OMITTED,
        e.McpServerUpdate: OMITTED,
        e.SessionDamaged: Form((Error,), _damage_error),
    },
    replies={c.Compact: Form((e.CompactionResult,), lambda data: data)},
    lacks=frozenset(COMMANDS.values()) - frozenset(KNOWN),
    fills={c.Prompt: {"streaming_behavior": "followUp"}},
    defaults={
        "keepAttachments": True,
        "retry": {"enabled": False},
        "defaultThinkingLevel": "off",
        "interleavedThinking": False,
    },
)
