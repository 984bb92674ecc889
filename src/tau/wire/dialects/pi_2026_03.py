"""Dialect of March 2026: exactly pi 0.52 to 0.58, without tau's additions."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any, get_args

from tau.records import commands as c
from tau.records import deltas, replies
from tau.records import events as e
from tau.records.base import UNSET, UnsetType, derive_record, replace
from tau.wire.dialect import NO_DATA, OMITTED, Form, form, reply_without, without
from tau.wire.dialects.default import (
    DEFAULT,
    AutoCompactionEnd,
    AutoCompactionStart,
    Compacted,
    SentDelta,
    by_reason,
    compaction_end,
    result_as,
)

PlainCallStart = derive_record(deltas.ToolCallStart, without=("id", "tool_name"))
SentPlainDelta: Any = reduce(
    or_, (PlainCallStart if kind is deltas.ToolCallStart else kind for kind in get_args(SentDelta))
)
PlainDelta: Any = SentPlainDelta | deltas.Failure
PlainUpdate = derive_record(e.MessageUpdate, without=("usage",), types={"assistant_message_event": PlainDelta})
PlainCompacted = derive_record(Compacted, without=("estimated_tokens_after", "usage"))
PlainCompactionEnd = derive_record(AutoCompactionEnd, types={"result": PlainCompacted | None})
PlainCommand = derive_record(replies.SlashCommand, without=("source_info",))
PlainCommands = derive_record(replies.SlashCommands, types={"commands": list[PlainCommand]})  # type: ignore[valid-type]


def _commands(data: replies.SlashCommands) -> Any:
    known = PlainCommand.__struct_fields__
    labelled = (replace(command, description=_description(command)) for command in data.commands)
    return PlainCommands([PlainCommand(*[getattr(command, name) for name in known]) for command in labelled])


def _description(command: replies.SlashCommand) -> str | UnsetType:
    """The description, which for a template ends with its location."""
    if command.source != "prompt" or command.location is UNSET or command.path is UNSET:
        return command.description
    name = command.path.rpartition("/")[2].removesuffix(".md")
    label = f"(path:{name})" if command.location == "path" else f"({command.location})"
    return label if command.description is UNSET else f"{command.description} {label}"


DIALECT = DEFAULT.derive(
    name="2026-03",
    about="March 2026, to the letter",
    pi="0.55.4",
    usage=False,
    tool_names=False,
    events={
        e.AgentEnd: without(e.AgentEnd, "will_retry"),
        e.MessageUpdate: form(PlainUpdate),
        e.AgentSettled: OMITTED,
        e.CompactionStart: by_reason(OMITTED, form(AutoCompactionStart)),
        e.CompactionEnd: by_reason(OMITTED, compaction_end(PlainCompactionEnd, PlainCompacted)),
        e.QueueUpdate: OMITTED,
    },
    replies={
        c.Prompt: NO_DATA,
        c.Steer: NO_DATA,
        c.FollowUp: NO_DATA,
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
    defaults={
        "compaction": {"betweenTurns": False},
        "compat": {
            "statsOf": "conversation",
            "saveLoweredLevel": True,
            "sessionFolder": "start",
            "fileTexts": "0.13",
            "compactShort": True,
        },
    },
)
