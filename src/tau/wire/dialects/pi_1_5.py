"""Dialect of pi 0.86 to 1.5: tau's internal protocol, with deltas only.

`message_update` repeats nothing, so a long answer costs only what is new. Messages with the role `system` tell clients
of the system prompt and tools, as in pi since 0.86 (runtime/session/system_messages.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any, Literal, get_args

from tau.records import commands as c
from tau.records import events as e
from tau.records import replies
from tau.records.base import UNSET, UnsetType, derive_record
from tau.records.messages import AnyMessage, Assistant, StopReason, System
from tau.wire.dialect import Dialect, Form
from tau.wire.dialects.default import (
    Compacted,
    CompactionEnd,
    MessageUpdate,
    compaction_end,
    result_as,
    without_failure,
)

Begun = derive_record(Assistant, name="AssistantBegun", types={"stop_reason": StopReason | Literal["pending"]})
AnyBegun: Any = reduce(or_, (Begun if kind is Assistant else kind for kind in (*get_args(AnyMessage), System)))
MessageStart = derive_record(e.MessageStart, types={"message": AnyBegun})
AnySent: Any = AnyMessage | System
MessageEnd = derive_record(e.MessageEnd, types={"message": AnySent})
AgentEnd = derive_record(e.AgentEnd, types={"messages": list[AnySent]})
LastText: Any = derive_record(replies.LastText, types={"text": str | UnsetType})
NewCommand = derive_record(replies.SlashCommand, without=("location", "path"))
NewCommands = derive_record(replies.SlashCommands, types={"commands": list[NewCommand]})  # type: ignore[valid-type]


def message_start(event: e.MessageStart) -> Sequence[Any]:
    """An answer that has not started yet has no stop reason: it is "pending"."""
    message = event.message
    if isinstance(message, Assistant) and not message.content and not message.failed:
        begun = Begun(*[getattr(message, name) for name in Begun.__struct_fields__])
        return (MessageStart(_pending(begun)),)
    return (event,)


def _pending(message: Any) -> Any:
    fields = {name: getattr(message, name) for name in message.__struct_fields__}
    return type(message)(**{**fields, "stop_reason": "pending"})


def unchanged(kind: Any) -> Form:
    """An event that is sent as it is, and documented as `kind`."""
    return Form((kind,), lambda event: (event,))


def _commands(data: replies.SlashCommands) -> Any:
    known = NewCommand.__struct_fields__
    return NewCommands([NewCommand(*[getattr(command, name) for name in known]) for command in data.commands])


def _last_text(data: Any) -> Any:
    return LastText(UNSET) if isinstance(data, replies.LastText) and data.text is None else data


DIALECT = Dialect(
    name="1.5",
    about="pi 0.86 to 1.5: deltas only",
    pi="1.5.0",
    snapshots=False,
    events={
        e.MessageStart: Form((MessageStart,), message_start),
        e.MessageUpdate: without_failure(derive_record(MessageUpdate, without=("message",))),
        e.MessageEnd: unchanged(MessageEnd),
        e.AgentEnd: unchanged(AgentEnd),
        e.CompactionEnd: compaction_end(CompactionEnd, Compacted),
    },
    replies={
        c.GetCommands: Form((NewCommands,), _commands),
        c.Compact: Form((Compacted,), result_as(Compacted)),
        c.GetLastAssistantText: Form((LastText,), _last_text),
    },
    defaults={
        "toolExecution": "parallel",
        "compat": {
            "steerAfter": "turn",
            "announceAnswer": "begun",
            "streamingUntil": "settled",
            "keepBashAfter": "run",
            "keepNamedModel": True,
            "commandResponse": "end",
            "providerDetails": True,
            "systemMessages": True,
        },
        "saveModels": False,
        "bashUpdates": True,
    },
)
