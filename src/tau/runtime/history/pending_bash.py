"""User bash commands that ended during a run.

Their messages are added to the conversation after the run, and recorded in the session until then, because the
commands were acknowledged.
"""

from __future__ import annotations

from contextlib import suppress

from tau.records.base import BadRecord, Record, decode, wire_json
from tau.records.entries import CustomEntry
from tau.records.messages import BashExecution
from tau.runtime.history.pending_entries import PendingEntries

ENDED = "tau.ran"


class EndedCommand(Record):
    """The data of an ENDED entry. A copy of the session, which has another id, ignores the entry."""

    session_id: str
    message: BashExecution


class PendingBash(PendingEntries[BashExecution]):
    marker = ENDED.encode()
    delivered_by = ("message",)

    def record(self, message: BashExecution) -> None:
        self._file.add(CustomEntry, ENDED, EndedCommand(self._file.header.id, message))

    def follow(self, custom_type: str, data: bytes, waiting: list[BashExecution]) -> None:
        if custom_type == ENDED:
            with suppress(BadRecord):
                ended = decode(EndedCommand, data)
                if ended.session_id == self._file.header.id:
                    waiting.append(ended.message)

    def key(self, waiting: BashExecution) -> bytes:
        return wire_json(waiting)

    def key_at(self, at: int) -> bytes | None:
        tree = self._file.tree
        return tree.message_json(at) if b'"bashExecution"' in tree.line(at) else None
