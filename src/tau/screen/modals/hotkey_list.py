"""The list of keys: to search in, or, opened by a key in an empty editor, to look at until the next character."""

from __future__ import annotations

from collections.abc import Sequence

from tau.screen.hotkeys import Hotkey
from tau.screen.input_events import Key
from tau.screen.modals import CANCELLED, Outcome
from tau.screen.modals.search_list import ListRow, SearchList
from tau.screen.panels import PanelView
from tau.screen.panels.layout import hint


class HotkeyList:
    """`peek`: a character closes it with the action "type" and that character as the value."""

    def __init__(self, rows: Sequence[Hotkey], *, peek: bool = False) -> None:
        shown = [
            ListRow(row.keys, " · ".join(filter(None, (row.about, row.missing, row.group))), f"{row.about} {row.keys}")
            for row in rows
        ]
        self._list = SearchList("Keys", shown)
        self._peek = peek

    def key(self, key: Key, actions: Sequence[str]) -> Outcome | None:
        if self._peek and key.text:
            return Outcome("type", key.text)
        outcome = self._list.key(key, actions)
        return None if outcome is None else CANCELLED

    def paste(self, text: str) -> Outcome | None:
        if self._peek:
            return Outcome("type", text)
        self._list.paste(text)
        return None

    def rows(self, width: int, max_rows: int) -> PanelView:
        view = self._list.rows(width, max_rows)
        first = "Any character continues the prompt" if self._peek else "Type to search"
        return PanelView((*view.lines[:-1], hint((first, "↑↓ PgUp PgDn", "Esc leaves"), width)), view.cursor)
