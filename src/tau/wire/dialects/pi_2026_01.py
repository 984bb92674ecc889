"""Dialect of January 2026: extensions are called hooks; forks also have their older name, branches."""

from __future__ import annotations

from tau.records import commands as c
from tau.records import events as e
from tau.records import replies
from tau.records.base import derive_record
from tau.wire.dialect import OMITTED, form, reply_without
from tau.wire.dialects.pi_2026_03 import DIALECT as PI_2026_03

HOOK_PATH = {"extension_path": "hook_path"}
HookError = derive_record(e.ExtensionError, tag="hook_error", renamed=HOOK_PATH)

DIALECT = PI_2026_03.derive(
    name="2026-01",
    about="January 2026, with the names that forks had before",
    pi="0.45.7",
    events={
        e.ExtensionError: form(HookError, HOOK_PATH),
        e.ToolRequest: OMITTED,
        e.ToolRequestCancelled: OMITTED,
    },
    replies={c.GetState: reply_without(replies.SessionState, "session_name")},
    lacks=PI_2026_03.lacks
    | {c.SetSessionName, c.GetCommands}
    | {c.SetTools, c.HostToolProgress, c.HostToolResult, c.GetTools, c.SetActiveTools},
    names={"branch": c.Fork, "get_branch_messages": c.GetForkMessages},
    defaults={"defaultThinkingLevel": "off", "compat": {"retrySuccess": "run"}},
)
