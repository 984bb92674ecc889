"""What a page shows of a conversation: the part of the branch whose cards it asks for, and the list of all branches."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any

from tau.core.conversation.tree import Tree
from tau.export import ExportedEntry
from tau.export.branch import BranchPart
from tau.export.outline import NO_ENTRY, Outline, message_of
from tau.export.page import call_of
from tau.export.text import valid_text
from tau.export.titles import title
from tau.records.entries import MessageEntry
from tau.records.lines import UnknownEntry
from tau.records.messages import Assistant, ToolResult

NEAR = 64  # entries in which an id is searched before an index of all ids is built
ABOVE = 12  # entries above the first card, in which the card above it is found


def branch_part(tree: Tree, cwd: str, *, after: str | None, before: str | None, limit: int) -> tuple[BranchPart, bool]:
    """The newest entries of the branch with at most `limit` cards, and True if older ones were left out.

    With `after`, the entries after that one, and the card that a result after it belongs to; with `before`, those
    before it. Only these entries are parsed. Raises KeyError for an entry that is not on the branch.
    """
    branch = tree.branch
    first = 0 if after is None else _place(tree, branch, after) + 1
    last = len(branch) if before is None else _place(tree, branch, before)
    entries: list[ExportedEntry] = []  # backwards
    start, cards = last, 0
    while start > first and cards < limit:
        start -= 1
        entries.append(tree.entry(branch[start]))
        cards += not _is_result(entries[-1])
    wanted = start
    start = _read_above(tree, branch, entries, start)
    entries.reverse()
    below = last
    while below < len(branch) and not isinstance(_message(entry := tree.entry(branch[below])), Assistant):
        if not _is_result(entry):
            break
        entries.append(entry)
        below += 1
    return BranchPart(entries, start, wanted - start, last - start, cwd), wanted > first


def _read_above(tree: Tree, branch: Sequence[int], entries: list[ExportedEntry], start: int) -> int:
    """Add the answer whose results come first, and the card above. `entries` are backwards. Returns the new start."""
    orphans = False
    for entry in reversed(entries):
        if isinstance(_message(entry), Assistant):
            break
        orphans = orphans or _is_result(entry)
    nearest = max(0, start - ABOVE)
    while start > 0 and (orphans or start > nearest):
        start -= 1
        entries.append(entry := tree.entry(branch[start]))
        if orphans and isinstance(_message(entry), Assistant):
            orphans, nearest = False, max(0, start - ABOVE)
        elif not orphans and isinstance(entry, MessageEntry) and not _is_result(entry):
            break
    return start


def _place(tree: Tree, branch: Sequence[int], id: str) -> int:
    for place in range(len(branch) - 1, max(-1, len(branch) - 1 - NEAR), -1):
        if tree.id(branch[place]) == id:
            return place
    at = tree.find(id)
    if at is None:
        raise KeyError(id)
    place = bisect_left(branch, at)
    if place == len(branch) or branch[place] != at:
        raise KeyError(id)
    return place


def _message(entry: ExportedEntry) -> Any:
    return entry.message if isinstance(entry, MessageEntry) else None


def _is_result(entry: ExportedEntry) -> bool:
    return isinstance(_message(entry), ToolResult)


# Branches.

LISTED_KINDS = ("user", "summary")


def outline_rows(entries: Sequence[Any | UnknownEntry], leaf: str | None, cwd: str) -> Iterator[dict[str, Any]]:
    """The prompts of all branches and the ends of branches, as a list with depths: the current branch is not indented.

    `current`: the entry is on the branch that ends at the leaf. `leaf`: it is that leaf. `end`: its branch ends here.
    """
    outline = Outline(entries, leaf)
    shown = set(outline.path)
    for index, depth in outline.order():
        kind, text = title(outline.entries[index], call_of(outline, index), cwd)
        end = not outline.children[index] and outline.parents[index] != NO_ENTRY
        if kind not in LISTED_KINDS and not end and index not in outline.labels:
            continue
        if end and message_of(outline.entries[index], Assistant) is None and kind in ("setting", "data", "model"):
            continue
        yield {
            "id": valid_text(outline.ids[index]),
            "kind": kind,
            "text": valid_text(text),
            "depth": depth,
            "label": valid_text(outline.labels.get(index, "")),
            "current": index in shown,
            "leaf": index == outline.leaf,
            "end": end,
        }
