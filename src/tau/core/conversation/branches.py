"""Branches of a session: lazy access to the current one, and the summary of one that is left.

When a conversation continues from another point of its tree, the model no longer sees the entries after the fork
point. A summary of them can be added to the new branch.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import overload

from tau.core.conversation.entry_messages import message_of, summary_of
from tau.core.conversation.summaries import (
    BRANCH_PREAMBLE,
    BRANCH_PROMPT,
    SummaryRequest,
    TouchedFiles,
    files_in_details,
    files_in_messages,
    output_limit,
    summary_input,
    summary_request,
)
from tau.core.conversation.tokens import TreeEntry, estimate
from tau.core.conversation.tree import ROOT, Tree
from tau.records.base import Value
from tau.records.entries import BranchSummaryEntry, CompactionEntry
from tau.records.lines import UnknownEntry
from tau.records.messages import AnyMessage, BranchSummary, CompactionSummary, ToolResult
from tau.records.models import Model, ThinkingLevel

SUMMARY_FILL = 0.9  # share of the budget: while less than this is used, an oversized summary is included all the same


class Branch(Sequence[TreeEntry]):
    """The path from the root to the leaf. An entry is parsed on first access and then cached.

    Entries that are dropped from the conversation keep their position and their id, but have no content.
    """

    def __init__(self, tree: Tree, also_dropped: frozenset[int] = frozenset()) -> None:
        """`also_dropped` are positions of entries that are about to be dropped."""
        self._tree = tree
        self._places = tree.branch
        self._dropped = tree.dropped | also_dropped
        self._read: dict[int, TreeEntry] = {}

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> TreeEntry: ...

    @overload
    def __getitem__(self, index: slice) -> list[TreeEntry]: ...

    def __getitem__(self, index: int | slice) -> TreeEntry | list[TreeEntry]:
        if isinstance(index, slice):
            return [self._entry(at) for at in self._places[index]]
        return self._entry(self._places[index])

    def _entry(self, at: int) -> TreeEntry:
        entry = self._read.get(at)
        if entry is None:
            entry = self._read[at] = _entry(self._tree, at, self._dropped)
        return entry


def abandoned_entries(tree: Tree, leaf: int, target: int, dropped: Container[int] = ()) -> list[TreeEntry]:
    """Entries between the fork point of the path to `target` and the leaf, oldest first.

    Entries at the positions in `dropped` have no content.
    """
    shared = set(tree.path(target))
    path = []
    while leaf != ROOT and leaf not in shared:
        path.append(leaf)
        leaf = tree.parent(leaf)
    return [_entry(tree, at, dropped) for at in reversed(path)]


def _entry(tree: Tree, at: int, dropped: Container[int]) -> TreeEntry:
    if at in dropped:
        return UnknownEntry("dropped", tree.id(at))
    return tree.entry(at)


class BranchPlan(Value):
    """Input of a branch summary: `messages` are the newest that fit; `files` are those of the whole branch."""

    messages: list[AnyMessage]
    files: TouchedFiles

    def request(
        self,
        model: Model,
        level: ThinkingLevel,
        reserve_tokens: int,
        instructions: str | None = None,
        *,
        replace: bool = False,
    ) -> SummaryRequest:
        """`instructions` are added to the standard prompt, or replace it."""
        replacement = instructions if replace and instructions and instructions.strip() else None
        return summary_request(
            replacement or BRANCH_PROMPT,
            self.messages,
            title="Branch summarization",
            max_tokens=output_limit(model, reserve_tokens, 80),
            thinking=level,
            focus=None if replacement else instructions,
        )

    def summary(self, answer: str) -> str:
        return f"{BRANCH_PREAMBLE}\n\n{answer}{self.files.list_text}"


def plan_branch_summary(entries: Sequence[TreeEntry], context_window: int, reserve_tokens: int) -> BranchPlan:
    budget = context_window - reserve_tokens
    messages = _newest(entries, budget if budget > 0 else context_window // 2)
    files = files_in_messages(message for entry in entries if (message := message_of(entry)) is not None)
    for entry in entries:
        if isinstance(entry, BranchSummaryEntry | CompactionEntry) and entry.from_hook is not True:
            files |= files_in_details(entry.details)
    return BranchPlan(messages, files)


def _newest(entries: Sequence[TreeEntry], budget: int) -> list[AnyMessage]:
    selected: list[AnyMessage] = []
    total = 0
    for entry in reversed(entries):
        message = _message(entry)
        if message is None:
            continue
        tokens = estimate(message)
        if total + tokens > budget:
            if isinstance(message, BranchSummary | CompactionSummary) and total < budget * SUMMARY_FILL:
                selected.append(message)
            break
        selected.append(message)
        total += tokens
    return selected[::-1]


def _message(entry: TreeEntry) -> AnyMessage | None:
    """The message of an entry for the summary of a branch. Tool results are omitted: what the model made of them
    matters.
    """
    message = summary_of(entry) if isinstance(entry, CompactionEntry) else message_of(entry)
    return None if message is None or isinstance(message, ToolResult) or not summary_input(message) else message
