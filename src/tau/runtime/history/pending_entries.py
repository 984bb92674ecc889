"""Messages that are acknowledged and recorded as custom entries until a message entry delivers them.

An acknowledged message survives the process: a session that is opened again looks for the recorded messages that
were never delivered. It looks on every branch, since neither queues nor user commands have branches.
"""

from __future__ import annotations

from contextlib import suppress
from typing import ClassVar, Generic, TypeVar

from tau.records.base import UNSET, BadRecord, encode
from tau.records.entries import CustomEntry
from tau.runtime.history.session_file import SessionFile

T = TypeVar("T")


class PendingEntries(Generic[T]):
    """`T` is a recorded message, with what is necessary to deliver it."""

    marker: ClassVar[bytes]  # part of every custom type that `follow` reads
    delivered_by: ClassVar[tuple[str, ...]]  # kinds of entries

    def __init__(self, file: SessionFile) -> None:
        self._file = file

    def undelivered(self) -> list[T]:
        """Return the messages that were recorded and never delivered, oldest first. Equal ones count separately."""
        waiting: list[T] = []
        tree = self._file.tree
        recorded = [at for at in tree.of_kind("custom") if self.marker in tree.line(at)]
        if not recorded:
            return waiting
        known = set(recorded)
        for at in tree.of_kind("custom", *self.delivered_by):
            if at in known:
                entry = tree.entry(at)
                if isinstance(entry, CustomEntry):
                    self.follow(entry.custom_type, encode(None if entry.data is UNSET else entry.data), waiting)
            elif waiting and tree.kind(at) != "custom":
                with suppress(BadRecord):
                    self.drop_delivered(waiting, self.key_at(at))
        return waiting

    def drop_delivered(self, waiting: list[T], key: bytes | None) -> None:
        """Remove the first message with this key, if there is one."""
        found = next((place for place, one in enumerate(waiting) if self.key(one) == key), None)
        if found is not None:
            del waiting[found]

    def follow(self, custom_type: str, data: bytes, waiting: list[T]) -> None:
        """Apply a custom entry, given its data as JSON, to the waiting messages."""
        raise NotImplementedError

    def key(self, waiting: T) -> bytes:
        """Return what identifies a message in the entry that delivers it."""
        raise NotImplementedError

    def key_at(self, at: int) -> bytes | None:
        """Return the key of the message that an entry delivers; None if it delivers none. May raise BadRecord."""
        raise NotImplementedError
