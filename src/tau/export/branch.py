"""Cards of a part of a branch: for a page that shows a session while it goes on.

The part is a list of entries that follow one another on the branch. It contains, besides the entries whose cards are
wanted, some above them: a result belongs to the card of its call, and a card names its model only if it is not the one
above.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tau.export import ExportedEntry
from tau.export.blocks import RenderContext
from tau.export.code import HtmlCode
from tau.export.outline import Outline, message_of
from tau.export.page import Cards
from tau.export.text import valid_text
from tau.export.totals import totals
from tau.records.messages import Assistant


class BranchCard(NamedTuple):
    """The card of an entry. `calls` are the ids of its tool calls, in the order of their elements."""

    id: str
    html: str
    calls: list[str]


class BranchPart(NamedTuple):
    """Entries of a branch, from `number` on. Cards are wanted of those from `first` until before `last`."""

    entries: Sequence[ExportedEntry]
    number: int
    first: int
    last: int
    cwd: str


def part_cards(part: BranchPart, limit: int) -> tuple[list[BranchCard], bool]:
    """The cards of a part, the newest of them if there are more than `limit`, and True if older ones were left out."""
    outline = Outline(part.entries, None)
    context = RenderContext(HtmlCode(totals(outline.entries).code), part.cwd)
    cards = Cards(outline, context, part.number)
    owners = [outline.slots[index][0] if index in outline.slots else index for index in range(part.first, part.last)]
    wanted = list(dict.fromkeys(owners))
    shown = set(range(len(outline.entries)))
    kept = wanted[max(0, len(wanted) - limit) :]
    return [_card(cards, outline, index, shown) for index in kept], len(kept) < len(wanted)


def _card(cards: Cards, outline: Outline, index: int, shown: set[int]) -> BranchCard:
    answer = message_of(outline.entries[index], Assistant)
    calls = [call.id for call in answer.tool_calls] if answer else []
    return BranchCard(valid_text(outline.ids[index]), valid_text(cards.article(index, shown)), calls)
