"""The rows of a session tree: which entries are shown, in which order, and the lines that connect them.

A conversation without branches is one column. Where it branches, each branch is a segment, one step to the right of
the one before; the active branch comes first.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from tau.records.base import Value

GAP, THROUGH = "   ", "│  "
MAX_STEPS = 8  # of the lines that connect segments; deeper ones are shifted to the left


class Segment(NamedTuple):
    """Entries that follow one another without a branch. `last`: no other branch follows at the same place."""

    above: Segment | None
    last: bool
    depth: int


class TreeRow(Value, gc=False):
    at: int  # the entry
    segment: Segment
    first: bool  # of its segment
    has_children: bool  # also if it is folded


def visible_parents(parents: Sequence[int], shown: Sequence[bool]) -> list[int]:
    """For each entry, its nearest ancestor that is shown; -1 if there is none."""
    above: list[int] = []
    add = above.append
    for parent in parents:
        add(parent if parent < 0 or shown[parent] else above[parent])
    return above


def lay_out(
    above: Sequence[int], shown: Sequence[bool], on_path: Collection[int], folded: Collection[int]
) -> list[TreeRow]:
    """The rows of the entries that are `shown`. `above` are their parents, `on_path` those of the active branch."""
    only = [-1] * len(above)  # the child of an entry that has one
    several: dict[int, list[int]] = {-1: []}  # the children of an entry that has more, and those without a parent
    for at, parent in enumerate(above):
        if not shown[at]:
            continue
        if parent in several:
            several[parent].append(at)
        elif only[parent] < 0:
            only[parent] = at
        else:
            several[parent] = [only[parent], at]
    for siblings in several.values():
        siblings.sort(key=lambda at: at not in on_path)
    rows: list[TreeRow] = []
    add = rows.append
    waiting: list[tuple[int, Segment]] = []
    _add(waiting, several[-1], None)
    while waiting:
        at, segment = waiting.pop()
        first = True
        while at not in several and at not in folded:
            below = only[at]
            add(TreeRow(at, segment, first, below >= 0))
            if below < 0:
                break
            at, first = below, False
        else:
            add(TreeRow(at, segment, first, at in several or only[at] >= 0))
            if at not in folded:
                _add(waiting, several[at], segment)
    return rows


def _add(waiting: list[tuple[int, Segment]], siblings: Sequence[int], above: Segment | None) -> None:
    """Put the first entries of new segments on the stack, so that the first comes off first."""
    branches = above is not None or len(siblings) > 1
    depth = (above.depth if above is not None else 0) + (1 if branches else 0)
    for number in range(len(siblings) - 1, -1, -1):
        waiting.append((siblings[number], Segment(above, number == len(siblings) - 1, depth)))


def connector(row: TreeRow, folded: Collection[int]) -> str:
    """The lines before the text of a row, with the sign of a segment that can be folded."""
    segment: Segment | None = row.segment
    assert segment is not None
    sign = foldable(row) and ("⊞" if row.at in folded else "⊟")
    if not segment.depth:
        return "⊞ " if row.at in folded else ""
    steps = [_own_step(segment, sign or "─") if row.first else GAP if segment.last else THROUGH]
    segment = segment.above
    while segment is not None and segment.depth and len(steps) < MAX_STEPS:
        steps.append(GAP if segment.last else THROUGH)
        segment = segment.above
    hidden = segment is not None and segment.depth > 0
    return ("… " if hidden else "") + "".join(reversed(steps))


def _own_step(segment: Segment, sign: str) -> str:
    return f"{'└' if segment.last else '├'}{sign} "


def foldable(row: TreeRow) -> bool:
    return row.first and row.has_children


def previous_segment(rows: Sequence[TreeRow], at: int) -> int:
    """The row at which the segment of a row begins; if it is that row itself, where the segment above begins."""
    wanted = rows[at].segment.above if rows[at].first else rows[at].segment
    for number in range(at - 1, -1, -1):
        if rows[number].first and rows[number].segment is wanted:
            return number
    return 0


def next_segment(rows: Sequence[TreeRow], at: int) -> int:
    """The next row at which a segment begins, or the end of this branch."""
    for number in range(at + 1, len(rows)):
        if rows[number].first:
            end = number - 1
            return number if end == at or rows[end].has_children else end
    return max(len(rows) - 1, 0)
