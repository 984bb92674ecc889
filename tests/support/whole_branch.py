"""What a model sees of a branch, taken from all its entries: the long way round, to compare with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tau.core.conversation.entry_messages import message_of, summary_of
from tau.records.entries import AnyEntry, CompactionEntry
from tau.records.lines import UnknownEntry
from tau.records.messages import AnyMessage


def context(branch: Sequence[AnyEntry | UnknownEntry]) -> list[AnyMessage]:
    """The messages of a branch: the summary of a compaction replaces everything before it."""
    at = next((i for i in range(len(branch) - 1, -1, -1) if isinstance(branch[i], CompactionEntry)), None)
    if at is None:
        return _messages(branch)
    compaction = branch[at]
    assert isinstance(compaction, CompactionEntry)
    first_kept = next((i for i, entry in enumerate(branch[:at]) if entry.id == compaction.first_kept_entry_id), at)
    return [summary_of(compaction), *_messages(branch[first_kept:at]), *_messages(branch[at + 1 :])]


def _messages(entries: Iterable[AnyEntry | UnknownEntry]) -> list[AnyMessage]:
    return [message for entry in entries if (message := message_of(entry)) is not None]
