"""A list whose chosen row is tried out at once, such as a theme."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tau.screen.input_events import Key
from tau.screen.modals import Outcome
from tau.screen.modals.search_list import ListRow, SearchList
from tau.screen.panels import PanelView


class PreviewList:
    """`preview` is called with the index of each row that is chosen on the way."""

    def __init__(self, title: str, rows: Sequence[ListRow], chosen: int, preview: Callable[[int], None]) -> None:
        self._list = SearchList(title, rows, chosen=chosen)
        self._preview = preview
        self._shown: int | None = chosen

    def key(self, key: Key, actions: Sequence[str]) -> Outcome | None:
        outcome = self._list.key(key, actions)
        self._show()
        return outcome

    def paste(self, text: str) -> None:
        self._list.paste(text)
        self._show()

    def _show(self) -> None:
        chosen = self._list.chosen
        if chosen is not None and chosen != self._shown:
            self._shown = chosen
            self._preview(chosen)

    def rows(self, width: int, max_rows: int) -> PanelView:
        return self._list.rows(width, max_rows)
