"""Dialect of pi 0.84.0 and 0.84.1: deltas only, as 1.5, and without what came later.

`WITH_USAGE` is 0.84.2, `WITH_TOOL_NAMES` 0.84.3 to 0.85.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any, get_args

from tau.records import commands as c
from tau.records import events as e
from tau.records import replies
from tau.records.base import derive_record
from tau.records.messages import System
from tau.wire.dialect import NO_DATA, OMITTED, Form, reply_without, without
from tau.wire.dialects.default import MessageUpdate, without_failure
from tau.wire.dialects.pi_1_5 import DIALECT as PI_1_5
from tau.wire.dialects.pi_1_5 import AnyBegun, message_start, unchanged
from tau.wire.dialects.pi_2026_03 import SentPlainDelta

AnyPlainBegun: Any = reduce(or_, (kind for kind in get_args(AnyBegun) if kind is not System))
MessageStart = derive_record(e.MessageStart, types={"message": AnyPlainBegun})
UsageUpdate = derive_record(MessageUpdate, without=("message",), types={"assistant_message_event": SentPlainDelta})
PlainUpdate = derive_record(UsageUpdate, without=("usage",))

DIALECT = PI_1_5.derive(
    name="0.84",
    about="pi 0.84.0 and 0.84.1: deltas only, no system messages",
    pi="0.84.1",
    usage=False,
    tool_names=False,
    events={
        e.MessageStart: Form((MessageStart,), message_start),
        e.MessageUpdate: without_failure(PlainUpdate),
        e.MessageEnd: unchanged(e.MessageEnd),
        e.AgentEnd: unchanged(e.AgentEnd),
        e.AgentSettled: without(e.AgentSettled, "aborted"),
        e.EntryAppended: OMITTED,
        e.ToolEnd: without(e.ToolEnd, "duration_ms"),
    },
    replies={
        c.Prompt: NO_DATA,
        c.Steer: NO_DATA,
        c.FollowUp: NO_DATA,
        c.Bash: reply_without(replies.BashResult, "stdout", "stderr", "signal"),
        c.GetSessionStats: reply_without(replies.SessionStats, "cost_unknown"),
    },
    defaults={
        "compat": {"systemMessages": False, "fileTexts": "0.84", "thinkingReturns": True, "saveLoweredLevel": True},
        "saveModels": True,
        "compaction": {"betweenTurns": False},
    },
)
WITH_USAGE = DIALECT.derive(
    name="0.84",
    about="pi 0.84.2",
    pi="0.84.2",
    usage=True,
    events={e.MessageUpdate: without_failure(UsageUpdate)},
)
WITH_TOOL_NAMES = WITH_USAGE.derive(
    name="0.84",
    about="pi 0.84.3 to 0.85",
    pi="0.85.1",
    tool_names=True,
    events={e.MessageUpdate: PI_1_5.events[e.MessageUpdate]},
)
