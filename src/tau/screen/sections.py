"""Sections of the transcript, as blocks that keep their rows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol

from tau.screen.cards import Card
from tau.screen.cells import clip_line
from tau.screen.lines import Line, plain_text
from tau.screen.look import Look


class Block:
    """The rows of a card, made again only when they may have changed.

    `lead`: an empty row stands before it, unless it is the first row of all. `flows`: it is text that goes on, so that
    what was printed of it is known by its characters. `replaces`: it stands for blocks that may be printed already.
    """

    __slots__ = ("_flows", "_frozen", "_inherited", "_key", "_replaces", "_rows", "card", "forgotten", "lead")

    def __init__(self, card: Card, *, lead: bool = False, flows: bool = False, replaces: bool = False) -> None:
        self.card = card
        self.lead = lead
        self.forgotten = False  # it has scrolled off the screen
        self._flows = flows
        self._replaces = replaces
        self._inherited = False
        self._key: tuple[Look, Hashable, bool] | None = None
        self._rows: list[Line] = []
        # Rows were printed that would be others now: their number, and how many characters they stand for.
        self._frozen: tuple[int, int] | None = None

    def inherit(self, other: Block) -> None:
        """Take the place of a block whose first rows may be printed. Another block may follow in its place, too."""
        self._key, self._rows, self._frozen = other._key, other._rows, other._frozen
        self._inherited = True

    @property
    def height(self) -> int:
        """The number of rows in the last frame."""
        return len(self._rows)

    def rows(self, look: Look, now: float, printed: int = 0) -> list[Line]:
        """The first `printed` rows are above the screen: they stay as they are, and do not get fewer."""
        key = look, self.card.state(now), self.lead
        if key == self._key:
            return self._rows
        rows = self.card.rows(look, now)
        if not look.plain:  # a screen of a few columns has no room for signs and indentation
            rows = [clip_line(row, look.width) for row in rows]
        if self.lead and rows:
            rows.insert(0, ())
        if printed:
            rows = self._after(rows, look, printed)
        self._key, self._rows = key, rows
        return rows

    def _after(self, rows: list[Line], look: Look, printed: int) -> list[Line]:
        if self._key is None:
            return rows + [()] * (printed - len(rows)) if self._replaces else rows
        kept = self._rows[:printed]
        if self._frozen is None:
            if self._inherited and rows == kept[: len(rows)]:
                return rows
            as_printed = rows[: len(kept)] == kept
            if as_printed or not (self._flows or self._key[0].width != look.width):
                return kept + rows[len(kept) :]
        count, characters = self._frozen or (0, 0)
        characters += sum(_length(row) for row in kept[count:])
        skip, before = _rows_with(characters, rows)
        self._frozen = len(kept), before
        return kept + rows[skip:]


def _rows_with(characters: int, rows: Sequence[Line]) -> tuple[int, int]:
    """The number of rows that hold at most so many characters, and how many they hold."""
    before = 0
    for number, row in enumerate(rows):
        if before + _length(row) > characters:
            return number, before
        before += _length(row)
    return len(rows), before


def _length(row: Line) -> int:
    """The number of characters, without spaces and lines, of which there may be more in another layout."""
    return len(plain_text(row).translate(_NO_TEXT))


_NO_TEXT = str.maketrans("", "", " ─│┼")


class Section(Protocol):
    @property
    def open(self) -> bool:
        """More blocks may come, or blocks may change."""
        ...

    def blocks(self, look: Look, now: float, above: int = 0) -> Sequence[Block]:
        """`above` is the number of its rows that have left the screen."""
        ...

    def splice(self, start: int, end: int, blocks: Sequence[Block] = ()) -> None:
        """Put `blocks` in place of finished blocks: those that have scrolled off the screen, or are not shown."""
        ...


class CardSection:
    """One card. `key` names what the card is about, if a later card may replace it."""

    def __init__(self, card: Card, *, key: str = "") -> None:
        self.block = Block(card, lead=True)
        self.key = key
        self._blocks = [self.block]

    @property
    def open(self) -> bool:
        return False

    def blocks(self, look: Look, now: float, above: int = 0) -> Sequence[Block]:
        return self._blocks

    def splice(self, start: int, end: int, blocks: Sequence[Block] = ()) -> None:
        for block in self._blocks[start:end]:
            block.forgotten = True
        self._blocks[start:end] = blocks
