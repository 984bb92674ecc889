"""Messages that entries of a session contain."""

from __future__ import annotations

from contextlib import suppress
from typing import TypeGuard, cast

from tau.records.base import BadRecord, encode, left_out, note_left_out
from tau.records.entries import (
    AnyEntry,
    BranchSummaryEntry,
    CompactionEntry,
    CustomMessageEntry,
    MessageEntry,
    milliseconds,
)
from tau.records.lines import UnknownEntry, read_message
from tau.records.messages import (
    AnyMessage,
    BranchSummary,
    CompactionSummary,
    Custom,
    Other,
    StoredMessage,
    System,
)


def message_of(entry: AnyEntry | UnknownEntry) -> AnyMessage | None:
    """The message for the model that an entry contains; None if it has none."""
    match entry:
        case MessageEntry():
            return entry.message
        case CustomMessageEntry():
            timestamp = milliseconds(entry.timestamp)
            custom = Custom(entry.custom_type, entry.content, entry.display, entry.details, timestamp)
            return note_left_out(custom, missing) if (missing := left_out(entry)) else custom
        case BranchSummaryEntry(summary=summary) if summary:
            return BranchSummary(summary, entry.from_id or "root", milliseconds(entry.timestamp))
    return None


def summary_of(compaction: CompactionEntry) -> CompactionSummary:
    return CompactionSummary(compaction.summary, compaction.tokens_before, milliseconds(compaction.timestamp))


def is_system(message: StoredMessage | System) -> TypeGuard[Other | System]:
    """True for a message of this kind, as it was made, or read from a file."""
    return isinstance(message, System) or (isinstance(message, Other) and message.role == "system")


def compacted_messages(compaction: CompactionEntry) -> list[StoredMessage]:
    """What the conversation has instead of its older messages: the system message, if there is one, and the summary."""
    if isinstance(compaction.system_message, dict):
        with suppress(BadRecord):
            if is_system(system := read_message(encode(compaction.system_message))):
                return [cast("Other", system), summary_of(compaction)]
    return [summary_of(compaction)]
