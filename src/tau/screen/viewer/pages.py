"""The rows of a branch, made entry by entry when they are shown. A row is found by its entry and its number there."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tau.core.conversation.tree import Tree
from tau.records import messages as m
from tau.records.base import replace
from tau.records.entries import AnyEntry, MessageEntry
from tau.records.lines import UnknownEntry
from tau.screen.history_section import sections_of
from tau.screen.lines import Line
from tau.screen.look import Look
from tau.screen.renderers import Renderers
from tau.screen.viewer.entry_text import entry_text
from tau.screen.viewer.live import LiveTail

KEPT_ENTRIES = 64  # whose rows are kept


class Position(NamedTuple):
    """`item` is the place of an entry on the branch; the live end is the last item."""

    item: int
    row: int


class Pages:
    def __init__(self, tree: Callable[[], Tree], live: LiveTail, look: Look) -> None:
        self._tree = tree
        self.live = live
        self._look = replace(look, expanded=True, hide_thinking=False)
        self._now = 0.0
        self._branch: tuple[int, Sequence[int]] = (-1, ())
        self._rows: OrderedDict[int, list[Line]] = OrderedDict()
        self._live_rows: list[Line] | None = None

    def prepare(self, width: int, now: float) -> None:
        """Before a frame: the width may be another one, and more may be there."""
        if width != self._look.width:
            self._look = replace(self._look, width=width)
            self._rows.clear()
        self._now, self._live_rows = now, None

    @property
    def branch(self) -> Sequence[int]:
        tree = self._tree()
        if self._branch[0] != tree.leaf:
            before, branch = self._branch[1], tree.branch
            if list(branch[: len(before)]) != list(before):
                self._rows.clear()  # another branch
            self._branch = tree.leaf, branch
        return self._branch[1]

    @property
    def live_item(self) -> int:
        """The item after all entries that are stored: the live end."""
        return min(self.live.stored, len(self.branch))

    def entry(self, item: int) -> AnyEntry | UnknownEntry:
        return self._tree().entry(self.branch[item])

    def line(self, item: int) -> bytes:
        return self._tree().line(self.branch[item])

    def message(self, item: int) -> m.AnyMessage | None:
        entry = self.entry(item)
        return entry.message if isinstance(entry, MessageEntry) else None

    def results(self, item: int) -> dict[str, m.ToolResult]:
        """The results of the tool calls of an answer: the messages that follow it."""
        found: dict[str, m.ToolResult] = {}
        for following in range(item + 1, self.live_item):
            message = self.message(following)
            if isinstance(message, m.ToolResult):
                found[message.tool_call_id] = message
            elif message is not None:
                break
        return found

    def text(self, item: int) -> str:
        """The text of an entry; "" for the live end."""
        if item >= self.live_item:
            return ""
        is_answer = isinstance(self.message(item), m.Assistant)
        return entry_text(self.entry(item), self.results(item) if is_answer else {})

    def rows(self, item: int) -> list[Line]:
        if item >= self.live_item:
            if self._live_rows is None:
                self._live_rows = self.live.rows(self._look, self._now)
            return self._live_rows
        rows = self._rows.get(item)
        if rows is None:
            rows = self._rows[item] = self._make(item)
            if len(self._rows) > KEPT_ENTRIES:
                self._rows.popitem(last=False)
        else:
            self._rows.move_to_end(item)
        return rows

    def _make(self, item: int) -> list[Line]:
        entry = self.entry(item)
        is_answer = isinstance(entry, MessageEntry) and isinstance(entry.message, m.Assistant)
        sections = sections_of(entry, self.results(item) if is_answer else {}, Renderers())
        blocks = [block for section in sections for block in section.blocks(self._look, 0)]
        return [row for block in blocks for row in block.rows(self._look, 0)]

    # Moving.

    def down(self, top: Position, count: int) -> Position:
        """`count` rows further, or the end."""
        item, row = top
        while item <= self.live_item:
            left = len(self.rows(item)) - row
            if count < left:
                return Position(item, row + count)
            count, item, row = count - left, item + 1, 0
        return Position(self.live_item, len(self.rows(self.live_item)))

    def up(self, top: Position, count: int) -> Position:
        """`count` rows before, or the beginning."""
        item, row = top
        while count > row:
            if item == 0:
                return Position(0, 0)
            count, item = count - row, item - 1
            row = len(self.rows(item))
        return Position(item, row - count)

    def last_page(self, height: int) -> Position:
        """Where the last screen begins."""
        end = Position(self.live_item, len(self.rows(self.live_item)))
        return self.up(end, height)

    def window(self, top: Position, height: int) -> list[tuple[Position, Line]]:
        shown: list[tuple[Position, Line]] = []
        item, row = top
        while item <= self.live_item and len(shown) < height:
            rows = self.rows(item)[row : row + height - len(shown)]
            shown += [(Position(item, row + number), line) for number, line in enumerate(rows)]
            item, row = item + 1, 0
        return shown

    def entry_at(self, position: Position) -> int:
        """The entry that a row belongs to: the first one from there that has rows."""
        item, row = position
        while item < self.live_item and row >= len(self.rows(item)):
            item, row = item + 1, 0
        return item
