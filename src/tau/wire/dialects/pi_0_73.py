"""Dialect of pi 0.59 to 0.80: one name for compactions, `queue_update` events, tools run in parallel."""

from __future__ import annotations

from tau.records import commands as c
from tau.records import events as e
from tau.records import replies
from tau.records.base import derive_record
from tau.wire.dialect import NO_DATA, OMITTED, Form, form, reply_without, without
from tau.wire.dialects.default import compaction_end, result_as, without_failure
from tau.wire.dialects.pi_1_5 import DIALECT as PI_1_5
from tau.wire.dialects.pi_1_5 import unchanged
from tau.wire.dialects.pi_2026_03 import PlainCompacted, PlainUpdate, SentPlainDelta

SentUpdate = derive_record(PlainUpdate, types={"assistant_message_event": SentPlainDelta})
CompactionEnd = derive_record(e.CompactionEnd, types={"result": PlainCompacted | None})

DIALECT = PI_1_5.derive(
    name="0.73",
    about="pi 0.59 to 0.80: snapshots, `compaction_*`, `queue_update`",
    pi="0.73.1",
    snapshots=True,
    usage=False,
    tool_names=False,
    events={
        e.MessageStart: form(e.MessageStart),
        e.MessageUpdate: without_failure(SentUpdate),
        e.MessageEnd: unchanged(e.MessageEnd),
        e.AgentEnd: without(e.AgentEnd, "will_retry"),
        e.AgentSettled: OMITTED,
        e.EntryAppended: OMITTED,
        e.ToolEnd: without(e.ToolEnd, "duration_ms"),
        e.BashUpdate: OMITTED,
        e.CompactionEnd: compaction_end(CompactionEnd, PlainCompacted),
    },
    replies={
        c.Prompt: NO_DATA,
        c.Steer: NO_DATA,
        c.FollowUp: NO_DATA,
        c.Compact: Form((PlainCompacted,), result_as(PlainCompacted)),
        c.Bash: reply_without(replies.BashResult, "stdout", "stderr", "signal"),
        c.GetSessionStats: reply_without(replies.SessionStats, "cost_unknown"),
    },
    lacks=frozenset({c.ClearQueue, c.GetAvailableThinkingLevels, c.GetEntries, c.GetTree}),
    defaults={
        "compat": {
            "streamingUntil": "end",
            "keepBashAfter": "prompt",
            "statsOf": "conversation",
            "commandResponse": "start",
            "providerDetails": False,
            "systemMessages": False,
            "thinkingReturns": True,
            "saveLoweredLevel": True,
            "fileTexts": "0.59",
            "compactShort": True,
            "maxLevel": False,
        },
        "saveModels": True,
        "bashUpdates": False,
        "compaction": {"betweenTurns": False},
    },
)
