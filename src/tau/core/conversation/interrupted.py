"""Whether the last run of a session came to its end, or the program died while it was working."""

from __future__ import annotations

from tau.core.conversation.tree import Tree
from tau.records.entries import MessageEntry
from tau.records.messages import Assistant, ToolResult, User


def interrupted_at(tree: Tree) -> str | None:
    """The id of the last message of a run that did not end; None if every run ended.

    A run ends with an answer that calls no tools, or that failed. Messages that belong to no run are passed over.
    """
    for at in tree.last_on_branch("message"):
        entry = tree.entry(at)
        message = entry.message if isinstance(entry, MessageEntry) else None
        if isinstance(message, Assistant):
            return tree.id(at) if message.stop_reason == "toolUse" else None
        if isinstance(message, User | ToolResult):
            return tree.id(at)
    return None
