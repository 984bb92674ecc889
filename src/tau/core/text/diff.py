"""Line diff of a file, rendered for clients and as a patch.

The search is Myers' algorithm (An O(ND) Difference Algorithm, 1986) in linear memory, after removing the common
prefix and suffix and the lines that only one side has. It is limited to MAX_STEPS. A range for which they do not
suffice counts as removed and added as a whole, which is correct, if not minimal.
"""

# Without `from __future__ import annotations`: NamedTuple would compile every annotation.
from collections.abc import Sequence
from typing import Any, NamedTuple

MAX_STEPS = 500_000  # about a fifth of a second
CONTEXT_LINES = 4  # unchanged lines shown before and after a change


class Change(NamedTuple):
    """old[start:end] became new[new_start:new_end]; one of the two may be empty."""

    start: int
    end: int
    new_start: int
    new_end: int


def common_prefix(first: Sequence[Any], second: Sequence[Any]) -> int:
    """Length of the common prefix. Compares slices instead of items, for speed."""
    low, step = 0, 1
    longest = min(len(first), len(second))
    while low < longest and first[low : low + step] == second[low : low + step]:
        low += step
        step *= 2
    high = min(low + step, longest)
    low = min(low, longest)
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def changes(old: Sequence[Any], new: Sequence[Any], steps: int = MAX_STEPS) -> list[Change]:
    """Ranges to remove and to add, in order: the minimum, as long as `steps` suffice."""
    start = common_prefix(old, new)
    end = common_prefix(old[start:][::-1], new[start:][::-1])
    before, after = old[start : len(old) - end], new[start : len(new) - end]

    common_items = set(before) & set(after)
    old_at = [at for at, item in enumerate(before) if item in common_items]
    new_at = [at for at, item in enumerate(after) if item in common_items]
    pairs = _Search([before[at] for at in old_at], [after[at] for at in new_at], steps).pairs()
    common = [(start + old_at[x], start + new_at[y]) for x, y in pairs]

    found: list[Change] = []
    x = y = start
    for next_x, next_y in [*common, (len(old) - end, len(new) - end)]:
        if x < next_x or y < next_y:
            found.append(Change(x, next_x, y, next_y))
        x, y = next_x + 1, next_y + 1
    return found


class _Search:
    """Finds pairs of equal items, in order, within a limited number of steps."""

    def __init__(self, one: list[Any], two: list[Any], steps: int) -> None:
        names: dict[Any, int] = {}  # integers compare faster than lines
        self._one = [names.setdefault(item, len(names)) for item in one]
        self._two = [names.setdefault(item, len(names)) for item in two]
        self._steps = steps

    def pairs(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        boxes = [(0, len(self._one), 0, len(self._two))]
        while boxes:
            left, right, top, bottom = boxes.pop()
            one, two = self._one[left:right], self._two[top:bottom]
            head = common_prefix(one, two)
            tail = common_prefix(one[head:][::-1], two[head:][::-1])
            found += zip(range(left, left + head), range(top, top + head), strict=True)
            found += zip(range(right - tail, right), range(bottom - tail, bottom), strict=True)
            one, two = one[head : len(one) - tail], two[head : len(two) - tail]
            if one and two and (point := self._middle(one, two)):
                x, y = left + head + point[0], top + head + point[1]
                boxes += [(left + head, x, top + head, y), (x, right - tail, y, bottom - tail)]
        return sorted(found)

    def _middle(self, one: list[int], two: list[int]) -> tuple[int, int] | None:
        """A point in the middle of a shortest path from one corner to the other, or None if it is too far.

        The search runs from both corners at once. `x` and `y` are the position of a path, a diagonal is x - y, and
        for each diagonal the greatest x so far is kept. A diagonal on which a path has left the box is not searched
        again.
        """
        width, height = len(one), len(two)
        sides = [(one, two), (one[::-1], two[::-1])]
        furthest = [{1: 0}, {1: 0}]
        edges = [[0, 0], [0, 0]]  # number of abandoned diagonals at the low and at the high end
        delta = width - height
        for distance in range((width + height + 1) // 2 + 1):
            for side in (0, 1):
                (a, b), reached, met, edge = sides[side], furthest[side], furthest[1 - side], edges[side]
                for diagonal in range(edge[0] - distance, distance + 1 - edge[1], 2):
                    below, above = reached.get(diagonal + 1, -1), reached.get(diagonal - 1, -1)
                    x = begin = below if below > above else above + 1
                    y = x - diagonal
                    while x < width and y < height and a[x] == b[y]:
                        x += 1
                        y += 1
                    reached[diagonal] = x
                    self._steps -= 1 + x - begin
                    if x > width:
                        edge[1] += 2
                    elif y > height:
                        edge[0] += 2
                    elif delta % 2 != side and x + met.get(delta - diagonal, -width) >= width:
                        return (x, y) if side == 0 else (width - x, height - y)
                if self._steps < 0:
                    return None
        return None


def split_lines(data: bytes) -> list[bytes]:
    """The lines of a file, each with its ending."""
    *ended, last = data.split(b"\n")
    return [line + b"\n" for line in ended] + ([last] if last else [])


def render_diff(old: Sequence[bytes], new: Sequence[bytes], found: Sequence[Change]) -> str:
    """The changes with a few context lines, in the format that clients know.

    A row is a sign, a line number and the text. Added lines have their number in the new file, all others in the old
    one. A row of dots stands for omitted lines.
    """
    width = len(str(max(map(_count, (old, new)))))
    dots = f" {'':{width}} ..."

    def rows(sign: str, text: Sequence[bytes], start: int, end: int) -> list[str]:
        return [f"{sign}{at + 1:{width}} {_text(text[at])}" for at in range(start, end)]

    out: list[str] = []
    done = 0
    for change in found:
        context_end = min(done + CONTEXT_LINES, change.start) if out else 0
        context_start = max(change.start - CONTEXT_LINES, context_end)
        out += rows(" ", old, done, context_end)
        out += [dots] if context_start > context_end else []
        out += rows(" ", old, context_start, change.start)
        out += rows("-", old, change.start, change.end)
        out += rows("+", new, change.new_start, change.new_end)
        done = change.end
    out += rows(" ", old, done, min(done + CONTEXT_LINES, len(old)))
    out += [dots] if done + CONTEXT_LINES < len(old) else []
    return "\n".join(out)


def unified_patch(name: str, old: Sequence[bytes], new: Sequence[bytes], found: Sequence[Change]) -> str:
    """The changes as a unified diff that `patch` and `git apply` accept."""
    out = [f"--- {name}\n+++ {name}\n"]
    for group in _groups(found):
        first, last = group[0], group[-1]
        before = min(CONTEXT_LINES, first.start)
        after = min(CONTEXT_LINES, len(old) - last.end)
        spans = (
            _span(first.start - before, last.end + after),
            _span(first.new_start - before, last.new_end + after),
        )
        out.append(f"@@ -{spans[0]} +{spans[1]} @@\n")
        at = first.start - before
        for change in group:
            out += [_row(" ", line) for line in old[at : change.start]]
            out += [_row("-", line) for line in old[change.start : change.end]]
            out += [_row("+", line) for line in new[change.new_start : change.new_end]]
            at = change.end
        out += [_row(" ", line) for line in old[at : at + after]]
    return "".join(out)


def _groups(found: Sequence[Change]) -> list[list[Change]]:
    """Group changes whose context lines meet into one hunk."""
    groups: list[list[Change]] = []
    for change in found:
        if groups and change.start - groups[-1][-1].end <= 2 * CONTEXT_LINES:
            groups[-1].append(change)
        else:
            groups.append([change])
    return groups


def _span(start: int, end: int) -> str:
    """First line and line count of a hunk. An empty span names the line before it."""
    return f"{start + 1 if end > start else start},{end - start}"


def _row(sign: str, line: bytes) -> str:
    ends_line = line.endswith(b"\n")
    text = line.decode("utf-8", "replace")
    return f"{sign}{text}" if ends_line else f"{sign}{text}\n\\ No newline at end of file\n"


def _count(text: Sequence[bytes]) -> int:
    """Line count as the `read` tool counts: the part after the last newline is a line, even if it is empty."""
    return len(text) + (not text or text[-1].endswith(b"\n"))


def _text(line: bytes) -> str:
    return line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "replace")
