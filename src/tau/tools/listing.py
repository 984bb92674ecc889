"""Results that are lists: the rows that fit, and a notice about what was left out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from tau.core.text.truncate import MAX_BYTES, head, size
from tau.errors import ToolError
from tau.records.base import replace
from tau.records.events import Outcome
from tau.records.messages import Text

ANY_NUMBER = 2**53 - 1  # lines: only bytes are limited. Clients know this number, JavaScript's MAX_SAFE_INTEGER


class Notice(NamedTuple):
    """A notice that something was left out: the value in the details under `key`, and the text for the model."""

    key: str
    value: Any
    text: str


def listed(rows: Iterable[str], limit: Notice | None = None, other: Notice | None = None) -> Outcome:
    """Join the rows, truncated to the size limit, and put all notices into one bracket at the end."""
    cut = head("\n".join(rows), max_lines=ANY_NUMBER)
    too_much = Notice("truncation", cut, f"{size(MAX_BYTES)} limit reached") if cut.truncated else None
    notices = [notice for notice in (limit, too_much, other) if notice]
    if not notices:
        return Outcome([Text(cut.content)])
    texts = ". ".join(notice.text for notice in notices)
    return Outcome([Text(f"{cut.content}\n\n[{texts}]")], {notice.key: notice.value for notice in notices})


def with_note(outcome: Outcome, note: str | None) -> Outcome:
    """Append a note in brackets to a result that consists of one text."""
    [block] = outcome.content
    if note is None or not isinstance(block, Text):
        return outcome
    return replace(outcome, content=[Text(f"{block.text}\n\n[{note}]")])


def whole(args: dict[str, Any], name: str, default: int, least: int) -> int:
    """Return an integer argument, or `default` if it was left out."""
    number = args.get(name)
    if number is None:
        return default
    try:
        return max(least, int(number))
    except (OverflowError, ValueError):  # infinity or NaN
        raise ToolError(f"{name} must be a whole number, not {number}") from None
