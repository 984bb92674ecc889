"""Branches of a session: one that is read as it is looked at, and the summary of one that is left.

When a conversation goes on from another point of its tree, what was said since
the two ways parted is out of the model's sight. A summary of it may go along.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import overload

from tau.core.conversation.summaries import (
    BRANCH,
    BRANCH_PREAMBLE,
    Files,
    SummaryRequest,
    files_in,
    files_of,
    output_limit,
    request,
    told,
)
from tau.core.conversation.tokens import Kept, estimate
from tau.core.conversation.tree import ROOT, Tree, message_of, summary_of
from tau.records.base import BadRecord, Value
from tau.records.entries import BranchSummaryEntry, CompactionEntry
from tau.records.lines import OtherEntry
from tau.records.messages import AnyMessage, BranchSummary, CompactionSummary, ToolResult
from tau.records.models import Model, ThinkingLevel

NEARLY = 0.9  # of the budget: below it, a summary that is too large is taken all the same


class Branch(Sequence[Kept]):
    """The way from the root to the leaf. An entry is read when it is looked at, and then kept.

    Entries that are left out of the conversation keep their place and their id, and say nothing.
    """

    def __init__(self, tree: Tree, also_dropped: frozenset[int] = frozenset()) -> None:
        """`also_dropped` are places of entries that are about to be left out."""
        self._tree = tree
        self._places = tree.branch
        self._dropped = tree.dropped | also_dropped
        self._read: dict[int, Kept] = {}

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> Kept: ...

    @overload
    def __getitem__(self, index: slice) -> list[Kept]: ...

    def __getitem__(self, index: int | slice) -> Kept | list[Kept]:
        if isinstance(index, slice):
            return [self._entry(at) for at in self._places[index]]
        return self._entry(self._places[index])

    def _entry(self, at: int) -> Kept:
        found = self._read.get(at)
        if found is None:
            found = self._read[at] = _entry(self._tree, at, self._dropped)
        return found


def left_behind(tree: Tree, leaf: int, target: int, dropped: Container[int] = ()) -> list[Kept]:
    """What stands between the leaf and where the way to `target` parts from it, oldest first.

    Entries at the places in `dropped` say nothing.
    """
    shared = set(tree.path(target))
    way = []
    while leaf != ROOT and leaf not in shared:
        way.append(leaf)
        leaf = tree.parent(leaf)
    return [_entry(tree, at, dropped) for at in reversed(way)]


def _entry(tree: Tree, at: int, dropped: Container[int]) -> Kept:
    if at in dropped:
        return OtherEntry("dropped", tree.id(at))
    try:
        return tree.entry(at)
    except BadRecord:  # damaged, but it has its place
        return OtherEntry("unreadable", tree.id(at))


class BranchPlan(Value):
    """`messages` are the newest that fit; the files are those of the whole branch."""

    messages: list[AnyMessage]
    files: Files

    def request(
        self,
        model: Model,
        level: ThinkingLevel,
        reserve_tokens: int,
        instructions: str | None = None,
        *,
        replace: bool = False,
    ) -> SummaryRequest:
        """`instructions` are added to ours, or stand in their place."""
        own = instructions if replace and instructions and instructions.strip() else None
        return request(
            own or BRANCH,
            self.messages,
            title="Branch summarization",
            max_tokens=output_limit(model, reserve_tokens, 80),
            thinking=level,
            focus=None if own else instructions,
        )

    def summary(self, answer: str) -> str:
        return f"{BRANCH_PREAMBLE}\n\n{answer}{self.files.lists}"


def prepare_branch(entries: Sequence[Kept], context_window: int, reserve_tokens: int) -> BranchPlan:
    budget = context_window - reserve_tokens
    messages = _newest(entries, budget if budget > 0 else context_window // 2)
    files = files_of(message for entry in entries if (message := message_of(entry)) is not None)
    for entry in entries:
        if isinstance(entry, BranchSummaryEntry | CompactionEntry) and entry.from_hook is not True:
            files |= files_in(entry.details)
    return BranchPlan(messages, files)


def _newest(entries: Sequence[Kept], budget: int) -> list[AnyMessage]:
    taken: list[AnyMessage] = []
    total = 0
    for entry in reversed(entries):
        message = _message(entry)
        if message is None:
            continue
        tokens = estimate(message)
        if total + tokens > budget:
            if isinstance(message, BranchSummary | CompactionSummary) and total < budget * NEARLY:
                taken.append(message)
            break
        taken.append(message)
        total += tokens
    return taken[::-1]


def _message(entry: Kept) -> AnyMessage | None:
    """What counts for the summary of a branch. What tools said is left out: what was made of it matters."""
    message = summary_of(entry) if isinstance(entry, CompactionEntry) else message_of(entry)
    return None if message is None or isinstance(message, ToolResult) or not told(message) else message
