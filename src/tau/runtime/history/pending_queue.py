"""Queued messages as entries of a session: an acknowledged message survives the process.

A QUEUED entry holds one message; a later message entry with the same content marks it as delivered. A CLEARED entry
drops all waiting messages, except those that it lists itself.
"""

from __future__ import annotations

from contextlib import suppress

from tau.core.agent.queues import QueueName
from tau.core.conversation.tree import Tree
from tau.records.base import UNSET, BadRecord, Record, decode, encode, replace
from tau.records.entries import CustomEntry, CustomMessageEntry
from tau.records.messages import Custom, User

QUEUED = "tau.queued"
CLEARED = "tau.queue_cleared"


class Queued(Record):
    """The data of a QUEUED entry."""

    queue: QueueName
    message: User | Custom


class Kept(Record):
    """The data of a CLEARED entry, if it has any: messages on their way from a queue into the conversation."""

    kept: list[Queued]


def undelivered(tree: Tree) -> list[tuple[QueueName, User | Custom]]:
    """Return the queued messages that an earlier process never delivered, on any branch: a queue has no branches."""
    waiting: list[tuple[QueueName, User | Custom]] = []
    if not tree.of_kind("custom"):
        return waiting
    for at in tree.of_kind("custom", "message", "custom_message"):
        if tree.kind(at) == "custom" and b"tau.queue" in tree.line(at):
            _follow(tree, at, waiting)
        elif waiting:
            with suppress(BadRecord):
                message_entry = _as_queued(tree, at)
                delivered = next(
                    (place for place, (_, message) in enumerate(waiting) if same_as(message) == message_entry), None
                )
                if delivered is not None:
                    del waiting[delivered]
    return waiting


def _follow(tree: Tree, at: int, waiting: list[tuple[QueueName, User | Custom]]) -> None:
    """Apply a QUEUED or CLEARED entry to the waiting messages."""
    entry = tree.entry(at)
    if not isinstance(entry, CustomEntry):
        return
    data = encode(None if entry.data is UNSET else entry.data)
    if entry.custom_type == CLEARED:
        waiting.clear()
        with suppress(BadRecord):
            waiting += [(one.queue, one.message) for one in decode(Kept, data).kept]
    elif entry.custom_type == QUEUED:
        with suppress(BadRecord):
            queued = decode(Queued, data)
            waiting.append((queued.queue, queued.message))


def _as_queued(tree: Tree, at: int) -> bytes:
    entry = tree.entry(at) if tree.kind(at) == "custom_message" else None
    if not isinstance(entry, CustomMessageEntry):
        return tree.message_json(at)
    return same_as(Custom(entry.custom_type, entry.content, entry.display, entry.details))


def same_as(message: User | Custom) -> bytes:
    """Return the key of a queued message: without the time of an extension's message, whose entry has its own."""
    return encode(replace(message, timestamp=0) if isinstance(message, Custom) else message)
