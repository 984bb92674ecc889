"""The default dialect: the protocol of March 2026 with additions that clients of that time ignore.

`agent_settled`, `willRetry`, `usage` on updates, `queue_update`, both shapes in `get_commands`, `stdout` and `stderr`
beside `output`, and the `disposition` of prompts, which the RpcClient of pi 1.5 reads without a check.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_
from typing import Any, Literal, get_args

from tau.records import commands as c
from tau.records import deltas
from tau.records import events as e
from tau.records.base import derive_record
from tau.wire.dialect import OMITTED, Dialect, Form, form, without

SentDelta: Any = reduce(or_, (kind for kind in get_args(deltas.AnyDelta) if kind is not deltas.Failure))
MessageUpdate = derive_record(e.MessageUpdate, types={"assistant_message_event": SentDelta})
AutoCompactionStart = derive_record(
    e.CompactionStart, tag="auto_compaction_start", types={"reason": Literal["threshold", "overflow"]}
)
Compacted = derive_record(e.CompactionResult, without=("timestamp", "first_kept_entry_index"))
AutoCompactionEnd = derive_record(
    e.CompactionEnd, tag="auto_compaction_end", without=("reason",), types={"result": Compacted | None}
)


def result_as(kind: Any) -> Callable[[Any], Any]:
    """Convert the result of a compaction to another record; other values pass unchanged."""
    made = form(kind).make
    return lambda result: made(result)[0] if isinstance(result, e.CompactionResult) else result


def without_failure(kind: type[e.Event]) -> Form:
    """Updates without the delta `error`, which pi documents and never sends.

    Streamed deltas take another way to the client (core/agent/draft.py), so every event that comes here is that one.
    """
    return Form((kind,), lambda event: ())


def _start(event: e.CompactionStart) -> Sequence[e.Event]:
    return () if event.reason == "manual" else (AutoCompactionStart(event.reason),)


def auto_compaction_end(kind: Any, result: Callable[[Any], Any]) -> Form:
    """Events only for automatic compactions: a client that requested one gets its result in the response."""

    def end(event: e.CompactionEnd) -> Sequence[e.Event]:
        if event.reason == "manual":
            return ()
        return (kind(result(event.result), event.aborted, event.will_retry, event.error_message),)

    return Form((kind,), end)


def _tool_update(event: e.ToolUpdate) -> Sequence[e.Event]:
    """Omit updates without content."""
    return (event,) if event.partial_result.content else ()


DEFAULT = Dialect(
    name="default",
    about="March 2026, and additions that clients of that time ignore",
    pi="0.87.1",
    events={
        e.MessageUpdate: without_failure(MessageUpdate),
        e.CompactionStart: Form((AutoCompactionStart,), _start),
        e.CompactionEnd: auto_compaction_end(AutoCompactionEnd, result_as(Compacted)),
        e.ToolUpdate: Form((e.ToolUpdate,), _tool_update),
        e.ToolEnd: without(e.ToolEnd, "duration_ms"),
        e.EntryAppended: OMITTED,
        e.SessionInfoChanged: OMITTED,
        e.ThinkingLevelChanged: OMITTED,
        e.BashUpdate: OMITTED,
    },
    replies={
        c.Compact: Form((Compacted,), result_as(Compacted)),
    },
)
DIALECT = DEFAULT
