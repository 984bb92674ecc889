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
    e.CompactionStart,
    name="AutoCompactionStart",
    tag="auto_compaction_start",
    types={"reason": Literal["threshold", "overflow"]},
)
Compacted = derive_record(e.CompactionResult, without=("timestamp", "first_kept_entry_index"))
CompactionEnd = derive_record(e.CompactionEnd, types={"result": Compacted | None})
AutoCompactionEnd = derive_record(
    e.CompactionEnd,
    name="AutoCompactionEnd",
    tag="auto_compaction_end",
    without=("reason",),
    types={"result": Compacted | None},
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


def compaction_end(kind: Any, result: Any) -> Form:
    """Events for all compactions, with results of type `result`."""
    made = result_as(result)
    names = kind.__struct_fields__

    def end(event: e.CompactionEnd) -> Sequence[Any]:
        values = [getattr(event, name) for name in names]
        return (kind(*[made(value) for value in values]),)

    return Form((kind,), end)


def by_reason(manual: Form, automatic: Form) -> Form:
    """Different events for compactions that a client requested and for automatic ones.

    The automatic ones have one name each: there are clients that know both names and would show a compaction twice.
    """
    return Form(
        (*manual.makes, *automatic.makes),
        lambda event: (manual if event.reason == "manual" else automatic).make(event),
    )


def _tool_update(event: e.ToolUpdate) -> Sequence[e.Event]:
    """Omit updates without content."""
    return (event,) if event.partial_result.content else ()


DEFAULT = Dialect(
    name="default",
    about="March 2026, and additions that clients of that time ignore",
    pi="0.87.1",
    events={
        e.MessageUpdate: without_failure(MessageUpdate),
        e.CompactionStart: by_reason(form(e.CompactionStart), form(AutoCompactionStart)),
        e.CompactionEnd: by_reason(
            compaction_end(CompactionEnd, Compacted), compaction_end(AutoCompactionEnd, Compacted)
        ),
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
