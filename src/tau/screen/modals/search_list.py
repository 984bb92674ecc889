"""A list with a search field: typing filters, the arrows choose, Enter confirms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from tau.records.base import Value
from tau.screen.cells import clip_line, text_width
from tau.screen.editor import Editor
from tau.screen.fuzzy import fuzzy_rank
from tau.screen.input_events import Key
from tau.screen.lines import Line, Span
from tau.screen.modals import CANCELLED, Outcome
from tau.screen.panels import PanelView, Status
from tau.screen.panels.layout import hint, top_rule
from tau.screen.safe_text import one_line

MOVES = {"tui.select.up": -1, "tui.select.down": 1, "tui.editor.cursorUp": -1, "tui.editor.cursorDown": 1}
PAGES = {"tui.select.pageUp": -1, "tui.select.pageDown": 1, "tui.editor.pageUp": -1, "tui.editor.pageDown": 1}
MAX_QUERY = 1000  # characters
FIXED_ROWS = 3  # the rule, the search field, the hint
MAX_LABEL_SHARE = 0.6  # of the width, for the column of labels


class ListRow(Value):
    """`detail` stands at the right of the label, dim. `search` is what the query is compared with; "": the label."""

    label: str
    detail: str = ""
    search: str = ""
    mark: str = ""  # before the label, such as "✓"


class SearchList:
    """The value of its outcome is the index of a row. `own_actions` are ids that close it with the chosen row.

    `handlers` are ids that change something and leave it open. `query` is what is searched for at first.
    """

    def __init__(
        self,
        title: str,
        rows: Sequence[ListRow],
        *,
        chosen: int = 0,
        query: str = "",
        own_actions: Sequence[str] = (),
        handlers: Mapping[str, Callable[[], None]] = MappingProxyType({}),
        hints: Sequence[str] = (),
        enter: str = "Enter chooses",
        rank: Callable[[str, Sequence[int]], Sequence[int]] | None = None,
    ) -> None:
        self.title = title
        self.items = rows
        self._query = Editor()
        self._own_actions = own_actions
        self._handlers = handlers
        self.hints = (enter, *hints)
        self._rank = rank or self._fuzzy
        self._found: Sequence[int] = range(len(rows))
        self._at = min(chosen, max(len(rows) - 1, 0))
        self._page = 1
        if query:
            self._query.set_text(query)
            self._search(chosen)

    @property
    def query(self) -> str:
        return self._query.text

    @property
    def found(self) -> Sequence[int]:
        """The indexes of the rows that the query matches, in their order."""
        return self._found

    @property
    def chosen(self) -> int | None:
        """The index of the chosen row."""
        return self._found[self._at] if self._found else None

    def replace_rows(self, rows: Sequence[ListRow], chosen: int | None = None, *, keep_position: bool = False) -> None:
        """Show other rows, for example when more of them are known. The query stays.

        `chosen` is the index of the row to choose. With `keep_position` it is the one at the same place of the list.
        """
        at = self._at
        self.items = rows
        self._search(chosen)
        if keep_position:
            self._at = min(at, max(len(self._found) - 1, 0))

    def key(self, key: Key, actions: Sequence[str]) -> Outcome | None:
        for action in actions:
            if action == "tui.select.cancel" or key.id == "escape":
                return CANCELLED
            if action in self._own_actions:
                return None if self.chosen is None else Outcome(action, self.chosen)
            if action in self._handlers:
                self._handlers[action]()
                return None
            if action in ("tui.select.confirm", "tui.input.submit"):
                return None if self.chosen is None else Outcome("confirm", self.chosen)
            if action in MOVES:
                self._at = (self._at + MOVES[action]) % max(len(self._found), 1)
                return None
            if action in PAGES:
                self._at = min(max(self._at + PAGES[action] * self._page, 0), max(len(self._found) - 1, 0))
                return None
        if key.id == "escape":
            return CANCELLED
        if any(action.startswith("tui.editor.") and self._query.perform(action) for action in actions):
            self._search()
        elif key.text:
            self._query.insert(key.text)
            self._search()
        return None

    def paste(self, text: str) -> None:
        self._query.insert(" ".join(text.split())[:MAX_QUERY])
        self._search()

    def _search(self, chosen: int | None = None) -> None:
        query = self._query.text
        self._found = self._rank(query, range(len(self.items))) if query else range(len(self.items))
        self._at = self._found.index(chosen) if chosen is not None and chosen in self._found else 0

    def _fuzzy(self, query: str, indexes: Sequence[int]) -> Sequence[int]:
        return fuzzy_rank(query, indexes, lambda at: self.items[at].search or self.items[at].label)

    def rows(self, width: int, max_rows: int) -> PanelView:
        room = max(max_rows - FIXED_ROWS, 1)
        self._page = room
        first = min(max(self._at - room // 2, 0), max(len(self._found) - room, 0))
        visible = self._found[first : first + room]
        column = min(max((text_width(self._label(at)) for at in visible), default=0), int(width * MAX_LABEL_SHARE))
        shown = [self._row(at, column, width) for at in visible] or [(Span("  Nothing found", "dim"),)]
        query = self._query.view(max(width - 2, 1), 1)
        field: Line = (Span("> ", "accent"), *query.lines[0])
        position = f"{self._at + 1} of {len(self._found)}" if self._found else ""
        lines = [
            top_rule(self.title, Status(position=position), width),
            field,
            *shown,
            hint((*self.hints, "Esc leaves"), width),
        ]
        return PanelView(tuple(clip_line(one, width) for one in lines[:max_rows]), (1, 2 + query.column))

    def _label(self, at: int) -> str:
        item = self.items[at]
        return one_line(f"{item.mark} {item.label}" if item.mark else item.label)

    def _row(self, at: int, column: int, width: int) -> Line:
        label, detail = clip_line((Span(self._label(at)),), column), one_line(self.items[at].detail)
        text = "".join(span.text for span in label)
        padding = " " * (column - text_width(text) + 2) if detail else ""
        if at == self.chosen:
            return clip_line((Span("→ ", "accent"), Span(text, "accent bold"), Span(padding + detail, "muted")), width)
        return clip_line((Span("  "), Span(text), Span(padding + detail, "dim")), width)
