"""The menu of settings: a list with a search field, and the sentences about the chosen setting below it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tau.screen.cells import clip_line, wrap_line
from tau.screen.fuzzy import fuzzy_rank
from tau.screen.input_events import Key
from tau.screen.lines import Line, Span
from tau.screen.modals import Outcome
from tau.screen.modals.search_list import FIXED_ROWS, ListRow, SearchList
from tau.screen.panels import PanelView
from tau.screen.panels.layout import INDENT, hint
from tau.screen.safe_text import one_line

MAX_SENTENCE_ROWS = 4
MIN_ROWS_WITH_SENTENCES = FIXED_ROWS + 4


class SettingsList:
    """`change` is called with the row that Enter or Space was pressed on; it returns how the list closes, or None.

    Tab calls `switch`, which may return another title. `sentences` has a text for each row.
    """

    def __init__(
        self,
        title: str,
        rows: Sequence[ListRow],
        sentences: Sequence[str],
        change: Callable[[int], Outcome | None],
        switch: Callable[[], str],
    ) -> None:
        self.list = SearchList(title, rows, rank=self._rank)
        self.message = ""  # such as why a change was refused; in place of the sentences
        self._sentences = sentences
        self._change = change
        self._switch = switch

    def key(self, key: Key, actions: Sequence[str]) -> Outcome | None:
        self.message = ""
        if key.id == "tab":
            self.list.title = self._switch()
            return None
        if key.text == " " or key.id == "space":
            return self._chosen()
        outcome = self.list.key(key, actions)
        return self._chosen() if outcome is not None and outcome.action == "confirm" else outcome

    def _rank(self, query: str, indexes: Sequence[int]) -> Sequence[int]:
        """The settings whose names match, then those whose sentences contain the query."""
        named = fuzzy_rank(query, indexes, lambda at: self.list.items[at].label)
        named = sorted(named, key=lambda at: self.list.items[at].label.lower() != query.lower())
        about = [at for at in indexes if at not in named and query.lower() in self._sentences[at].lower()]
        return [*named, *about]

    def _chosen(self) -> Outcome | None:
        return None if self.list.chosen is None else self._change(self.list.chosen)

    def paste(self, text: str) -> None:
        self.list.paste(text)

    def rows(self, width: int, max_rows: int) -> PanelView:
        below = self._below(width) if max_rows >= MIN_ROWS_WITH_SENTENCES else []
        below = below[: max(max_rows - MIN_ROWS_WITH_SENTENCES + 1, 1)]
        view = self.list.rows(width, max_rows - len(below))
        keys = hint(("Enter changes", "Tab: yours or the project's", "Esc leaves"), width)
        return PanelView((*view.lines[:-1], *below, keys), view.cursor)

    def _below(self, width: int) -> list[Line]:
        at = self.list.chosen
        text, style = (self.message, "warning") if self.message else (self._sentences[at] if at is not None else "", "")
        wrapped = wrap_line((Span(one_line(text), style or "muted"),), max(width - len(INDENT), 1))
        lines: list[Line] = [(Span(INDENT), *row) for row in wrapped[:MAX_SENTENCE_ROWS]]
        if len(wrapped) > MAX_SENTENCE_ROWS:
            lines[-1] = clip_line((*lines[-1], Span(" …", "muted")), width)
        return [*lines, *([()] * (0 if lines else 1))]
