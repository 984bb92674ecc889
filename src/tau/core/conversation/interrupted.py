"""Whether the last run of a session came to its end, or the program died while it was working."""

from __future__ import annotations

from typing import NamedTuple

from tau.core.conversation.tree import Tree
from tau.records.entries import MessageEntry
from tau.records.messages import Assistant, ToolResult, User


class LastRun(NamedTuple):
    """The last run of a session. `entry_id` is its last message."""

    entry_id: str
    ended: bool
    aborted: bool = False


def last_run(tree: Tree) -> LastRun | None:
    """The last run on the current branch; None if there was none.

    A run ends with an answer that calls no tools, or that failed. Messages that belong to no run are passed over.
    """
    for at in tree.last_on_branch("message"):
        entry = tree.entry(at)
        message = entry.message if isinstance(entry, MessageEntry) else None
        if isinstance(message, Assistant):
            return LastRun(tree.id(at), message.stop_reason != "toolUse", message.stop_reason == "aborted")
        if isinstance(message, User | ToolResult):
            return LastRun(tree.id(at), ended=False)
    return None
