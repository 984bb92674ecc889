"""Dialect of March 2026: exactly pi 0.52 to 0.58, without tau's additions."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any, get_args

from tau.records import commands as c
from tau.records import deltas, replies
from tau.records import events as e
from tau.records.base import derived
from tau.wire.dialect import LEFT_OUT, Form, form, reply_without, without
from tau.wire.dialects.default import DEFAULT, AutoCompactionEnd, Compacted, automatic, result_as

PlainCallStart = derived(deltas.ToolCallStart, without=("id", "tool_name"))
PlainDelta: Any = reduce(
    or_, (PlainCallStart if kind is deltas.ToolCallStart else kind for kind in get_args(deltas.AnyDelta))
)
PlainUpdate = derived(e.MessageUpdate, without=("usage",), types={"assistant_message_event": PlainDelta})
PlainCompacted = derived(Compacted, without=("estimated_tokens_after", "usage"))
PlainCompactionEnd = derived(AutoCompactionEnd, types={"result": PlainCompacted | None})
PlainCommand = derived(replies.SlashCommand, without=("source_info",))
PlainCommands = derived(replies.SlashCommands, types={"commands": list[PlainCommand]})  # type: ignore[valid-type]


def _commands(data: replies.SlashCommands) -> Any:
    known = PlainCommand.__struct_fields__
    return PlainCommands([PlainCommand(*[getattr(command, name) for name in known]) for command in data.commands])


DIALECT = DEFAULT.but(
    name="2026-03",
    about="March 2026, to the letter",
    pi="0.55.4",
    extras=False,
    events={
        e.AgentEnd: without(e.AgentEnd, "will_retry"),
        e.MessageUpdate: form(e.MessageUpdate, PlainUpdate),
        e.AgentSettled: LEFT_OUT,
        e.CompactionEnd: automatic(PlainCompactionEnd, result_as(PlainCompacted)),
        e.QueueUpdate: LEFT_OUT,
    },
    replies={
        c.Bash: reply_without(replies.BashResult, "stdout", "stderr", "signal"),
        c.GetSessionStats: reply_without(replies.SessionStats, "cost_unknown", "context_usage"),
        c.GetCommands: Form((PlainCommands,), _commands),
        c.Compact: Form((PlainCompacted,), result_as(PlainCompacted)),
    },
    lacks=frozenset(
        {
            c.ClearQueue,
            c.Clone,
            c.GetAvailableThinkingLevels,
            c.GetEntries,
            c.GetTree,
            c.ListSessions,
            c.Navigate,
        }
    ),
    defaults={"compaction": {"betweenTurns": False}, "statsOf": "conversation"},
)
