"""Queued messages as entries of a session: an acknowledged message survives the process.

A QUEUED entry holds one message; a later message entry with the same content marks it as delivered. A CLEARED entry
drops all waiting messages, except those that it lists itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from tau.core.agent.queues import QueueName
from tau.records.base import UNSET, BadRecord, Record, UnsetType, decode, encode, replace
from tau.records.entries import CommandKey, CustomEntry, CustomMessageEntry
from tau.records.messages import Custom, User
from tau.runtime.history.pending_entries import PendingEntries
from tau.runtime.history.session_file import SessionFile

QUEUED = "tau.queued"
CLEARED = "tau.queue_cleared"

Waiting = tuple[QueueName, User | Custom]


class Queued(Record):
    """The data of a QUEUED entry. `key` and `keyDigest` are those of a message entry."""

    queue: QueueName
    message: User | Custom
    key: str | UnsetType = UNSET
    key_digest: str | UnsetType = UNSET


class Kept(Record):
    """The data of a CLEARED entry, if it has any: messages on their way from a queue into the conversation."""

    kept: list[Queued]


class PendingQueue(PendingEntries[Waiting]):
    marker = b"tau.queue"
    delivered_by = ("message", "custom_message")

    def __init__(self, file: SessionFile) -> None:
        super().__init__(file)
        self._waiting: list[Waiting] = []  # recorded by this process, or restored, and not delivered yet

    def record(self, queue: QueueName, message: User | Custom, key: CommandKey | None = None) -> None:
        self._file.require_open()
        self._file.expect()
        self._waiting.append((queue, message))
        self._file.add(CustomEntry, QUEUED, Queued(queue, message, *(() if key is None else (key.key, key.digest))))

    def deliver(self, message: User | Custom) -> None:
        """Called before the entry of any message is added: it marks an equal queued message as delivered."""
        if self._waiting:
            self.drop_delivered(self._waiting, _key(message))

    def clear(self, dropped: Sequence[User | Custom]) -> None:
        """Record that `dropped` will not be delivered. Messages taken from a queue or accepted still will be."""
        self._waiting = [one for one in self._waiting if not any(one[1] is other for other in dropped)]
        kept = [Kept([Queued(*one) for one in self._waiting])] if self._waiting else []
        self._file.add(CustomEntry, CLEARED, *kept)

    def clear_on_leave(self) -> None:
        """Record cleared queues when the session is left: the write cannot be retried later, so it raises OSError.

        If the session stays after all, its queued messages are recorded again.
        """
        self._file.add_or_fail(CustomEntry, CLEARED)
        self._waiting = []

    def restore(self) -> list[Waiting]:
        """Return the undelivered messages of a session that is resumed, and track their delivery."""
        self._waiting = self.undelivered()
        return [*self._waiting]

    def follow(self, custom_type: str, data: bytes, waiting: list[Waiting]) -> None:
        if custom_type == CLEARED:
            waiting.clear()
            with suppress(BadRecord):
                waiting += [(one.queue, one.message) for one in decode(Kept, data).kept]
        elif custom_type == QUEUED:
            with suppress(BadRecord):
                queued = decode(Queued, data)
                waiting.append((queued.queue, queued.message))

    def key(self, waiting: Waiting) -> bytes:
        return _key(waiting[1])

    def key_at(self, at: int) -> bytes | None:
        tree = self._file.tree
        entry = tree.entry(at) if tree.kind(at) == "custom_message" else None
        if not isinstance(entry, CustomMessageEntry):
            return tree.message_json(at)
        return _key(Custom(entry.custom_type, entry.content, entry.display, entry.details))


def _key(message: User | Custom) -> bytes:
    """Return the key of a queued message: without the time of an extension's message, whose entry has its own."""
    return encode(replace(message, timestamp=0) if isinstance(message, Custom) else message)
