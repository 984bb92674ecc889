"""Messages that entries of a session contain."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TypeGuard, cast

from tau.records.base import BadRecord, encode
from tau.records.entries import AnyEntry, BranchSummaryEntry, CompactionEntry, CustomMessageEntry, MessageEntry
from tau.records.lines import UnknownEntry
from tau.records.messages import (
    AnyMessage,
    BranchSummary,
    CompactionSummary,
    Custom,
    Other,
    StoredMessage,
    System,
    read_message,
)

_ISO = r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?Z?"  # compiled when it is first used


def message_of(entry: AnyEntry | UnknownEntry) -> AnyMessage | None:
    """The message for the model that an entry contains; None if it has none."""
    match entry:
        case MessageEntry():
            return entry.message
        case CustomMessageEntry():
            timestamp = milliseconds(entry.timestamp)
            return Custom(entry.custom_type, entry.content, entry.display, entry.details, timestamp)
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


def milliseconds(iso: str) -> int:
    """Unix milliseconds of an entry's timestamp (UTC); 0 if it is invalid."""
    match = re.fullmatch(_ISO, iso)
    if match is None:
        return 0
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    # Days since 1970 by the calendar that starts in March, so that leap days come last.
    years = year - (month <= 2)
    days = 365 * years + years // 4 - years // 100 + years // 400 + (153 * ((month + 9) % 12) + 2) // 5 + day - 719469
    fraction = int((match[7] or "0").ljust(3, "0")[:3])
    return ((days * 24 + hour) * 60 + minute) * 60_000 + second * 1000 + fraction
