"""What to write so that one row becomes another: the smallest part that differs, where columns are certain."""

from __future__ import annotations

from tau.records.base import Value
from tau.screen.cells import is_simple, line_width
from tau.screen.lines import Line, Span, plain_text


class Change(Value):
    """Write `spans` from `column` on; `width` cells, or None where the width is not certain. Then erase the rest?"""

    column: int
    spans: Line
    width: int | None
    erase: bool


def change_of(old: Line, new: Line) -> Change:
    """`old` and `new` differ."""
    before, old_middle, new_middle, after = _difference(old, new)
    old_text, new_text, after_text = plain_text(old_middle), plain_text(new_middle), plain_text(after)
    old_rest, new_rest = old_text + after_text, new_text + after_text
    if not is_simple(before) or not is_simple(old_rest[:1]) or not is_simple(new_rest[:1]):
        return whole(new, line_width(old))
    same_width = len(old_text) == len(new_text) and is_simple(old_text) and is_simple(new_text)
    if after and same_width and is_simple(after_text[:1]):
        return Change(len(before), new_middle, len(new_text), False)
    width = len(new_rest) if is_simple(new_rest) else None
    erase = bool(old_rest) and (width is None or not is_simple(old_rest) or len(old_rest) > width)
    return Change(len(before), new_middle + after, width, erase)


def whole(new: Line, old_width: int) -> Change:
    """Write the row from its beginning."""
    text = plain_text(new)
    width = len(text) if is_simple(text) else None
    return Change(0, new, width, old_width > 0 and (width is None or old_width > width))


def _difference(old: Line, new: Line) -> tuple[str, Line, Line, Line]:
    """The text before the first difference, the parts that differ, and the spans after the last difference."""
    start, limit = 0, min(len(old), len(new))
    while start < limit and old[start] == new[start]:
        start += 1
    end = 0
    while end < limit - start and old[-1 - end] == new[-1 - end]:
        end += 1
    before = plain_text(new[:start])
    old_middle, new_middle = old[start : len(old) - end], new[start : len(new) - end]
    after = new[len(new) - end :]
    if old_middle and new_middle and old_middle[0][1:] == new_middle[0][1:]:
        shared = _common_prefix(old_middle[0].text, new_middle[0].text)
        before += new_middle[0].text[:shared]
        old_middle, new_middle = _without_start(old_middle, shared), _without_start(new_middle, shared)
    if old_middle and new_middle and old_middle[-1][1:] == new_middle[-1][1:]:
        shared = _common_suffix(old_middle[-1].text, new_middle[-1].text)
        if shared:
            last = new_middle[-1]
            after = (last._replace(text=last.text[len(last.text) - shared :]), *after)
            old_middle, new_middle = _without_end(old_middle, shared), _without_end(new_middle, shared)
    return before, old_middle, new_middle, after


def _common_prefix(one: str, other: str) -> int:
    limit = min(len(one), len(other))
    if one[:limit] == other[:limit]:
        return limit
    low, high = 0, limit  # one[:low] is shared, one[:high] is not
    while high - low > 1:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low


def _common_suffix(one: str, other: str) -> int:
    return _common_prefix(one[::-1], other[::-1])


def _without_start(spans: Line, count: int) -> Line:
    first = spans[0]
    text = first.text[count:]
    return (Span(text, *first[1:]), *spans[1:]) if text else spans[1:]


def _without_end(spans: Line, count: int) -> Line:
    last = spans[-1]
    text = last.text[: len(last.text) - count]
    return (*spans[:-1], Span(text, *last[1:])) if text else spans[:-1]
