"""The transcript viewer as a modal: which part of the branch is on the screen, and what its keys do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tau.records import messages as m
from tau.screen.cells import clip_line, line_width, text_width
from tau.screen.input_events import Key
from tau.screen.lines import Line, Span
from tau.screen.modals import CANCELLED, Outcome
from tau.screen.panels import PanelView
from tau.screen.safe_text import one_line
from tau.screen.viewer.pages import Pages, Position
from tau.screen.viewer.search import find, highlighted

EDIT = "edit"
MAX_QUERY = 200  # characters
LINES = {"tui.select.up": -1, "tui.altScreen.lineUp": -1, "tui.select.down": 1, "tui.altScreen.lineDown": 1}
PAGES = {"tui.altScreen.pageUp": -1.0, "tui.altScreen.pageDown": 1.0}
PAGES |= {"tui.altScreen.halfPageUp": -0.5, "tui.altScreen.halfPageDown": 0.5}
PROMPTS = {"tui.altScreen.previousPrompt": -1, "tui.altScreen.nextPrompt": 1, "[": -1, "]": 1}
MATCHES = {"n": False, "N": True}  # True: backward
HELP = ("q leaves", "/ searches", "[ ] prompts", "c copies", "e editor", "Home End")


class _Search:
    def __init__(self) -> None:
        self.query = ""
        self.typing = False
        self.found: Position | None = None


class Viewer:
    """`copy` gets the text of an entry; what `notice` returns stands in the last row.

    Its outcome is CANCELLED, or EDIT with the text of an entry.
    """

    full_screen = True

    def __init__(
        self,
        pages: Pages,
        clock: Callable[[], float],
        copy: Callable[[str], None],
        notice: Callable[[], str] = str,
    ) -> None:
        self._pages = pages
        self._clock = clock
        self._copy = copy
        self._notice = notice
        self._top = Position(0, 0)
        self._follow = True  # show the end, also when more comes
        self._height = 1
        self._search = _Search()
        self.message = ""  # in the last row, until the next key

    # Keys.

    def key(self, key: Key, actions: Sequence[str]) -> Outcome | None:
        self.message = ""
        if self._search.typing:
            self._type(key, actions)
            return None
        if key.id in ("escape", "q") or "tui.select.cancel" in actions:
            return CANCELLED
        if key.text == "c":
            self._copy_entry()
        elif key.text == "e":
            return Outcome(EDIT, text) if (text := self._text()) else None
        elif key.text == "/" or "tui.altScreen.search" in actions:
            self._search.typing, self._search.query = True, ""
        elif key.text in MATCHES:
            self._find(backward=MATCHES[key.text])
        elif "tui.altScreen.searchNext" in actions or "tui.altScreen.searchPrevious" in actions:
            self._find(backward="tui.altScreen.searchPrevious" in actions)
        else:
            self._scroll((key.text, *actions))
        return None

    def _scroll(self, names: Sequence[str]) -> None:
        for name in names:
            if name in LINES:
                self._move(LINES[name])
            elif name in PAGES:
                self._move(int(PAGES[name] * max(self._height - 1, 1)))
            elif name in PROMPTS:
                self._go_to_prompt(PROMPTS[name])
            elif name == "tui.altScreen.top":
                self._go_to(Position(0, 0))
            elif name == "tui.altScreen.bottom":
                self._follow = True
            else:
                continue
            return

    def _type(self, key: Key, actions: Sequence[str]) -> None:
        search = self._search
        if key.id == "escape" or "tui.select.cancel" in actions:
            search.typing, search.query = False, ""
        elif key.id == "enter" or "tui.input.submit" in actions:
            search.typing, search.found = False, None
            self._find(backward=False)
        elif "tui.editor.deleteCharBackward" in actions:
            search.query = search.query[:-1]
        elif key.text:
            search.query = (search.query + key.text)[:MAX_QUERY]

    def paste(self, text: str) -> None:
        if self._search.typing:
            self._search.query = " ".join(f"{self._search.query}{text}".split())[:MAX_QUERY]

    # Moving.

    def _text(self) -> str:
        """The entry that is copied: what was found, if it is on the screen, or the first one there that has a text."""
        places = [place for place, _ in self._pages.window(self._top, self._height)]
        items = dict.fromkeys(place.item for place in places)
        found = self._search.found
        if found is not None and found in places:
            items = {found.item: None}
        return next((text for item in items if (text := self._pages.text(item))), "")

    def _move(self, rows: int) -> None:
        self._go_to(self._pages.down(self._top, rows) if rows > 0 else self._pages.up(self._top, -rows))

    def _go_to(self, top: Position) -> None:
        last = self._pages.last_page(self._height)
        self._follow = top >= last
        self._top = min(top, last)

    def _go_to_prompt(self, step: int) -> None:
        pages = self._pages
        item = pages.entry_at(self._top)
        if step > 0 or self._top.row <= 1:  # row 0 is the empty one above the entry
            item += step
        while 0 <= item < pages.live_item:
            if b'"user"' in pages.line(item) and isinstance(pages.message(item), m.User):
                self._go_to(Position(item, 0))
                return
            item += step
        if step > 0:
            self._follow = True
        else:
            self._go_to(Position(0, 0))

    def _find(self, *, backward: bool) -> None:
        search = self._search
        if not search.query:
            return
        start = search.found or Position(self._top.item, self._top.row - 1)
        found, stopped = find(self._pages, search.query, start, backward=backward)
        where, query = "above" if backward else "below", one_line(search.query)
        if found is not None:
            search.found = found
            self._go_to(self._pages.up(found, self._height // 3))
        elif stopped is not None:
            search.found = stopped
            self.message = f"Not found yet {where}: {query} · {'N' if backward else 'n'} goes on"
        else:
            self.message = f"Not found {where}: {query}"

    def _copy_entry(self) -> None:
        if text := self._text():
            self._copy(text)
        else:
            self.message = "There is no text to copy."

    # Rows.

    def rows(self, width: int, max_rows: int) -> PanelView:
        self._height = max(max_rows - 1, 1)
        self._pages.prepare(width, self._clock())
        last = self._pages.last_page(self._height)
        if self._follow or self._top > last:
            self._top = last
        window = self._pages.window(self._top, self._height)
        query = "" if self._search.typing else self._search.query
        shown = [highlighted(line, query) for _, line in window]
        shown += [()] * (self._height - len(shown))
        bottom = self._bottom(width)
        lines = [clip_line(line, width) for line in [*shown, bottom]]
        cursor = (len(lines) - 1, min(line_width(bottom), width)) if self._search.typing else None
        return PanelView(tuple(lines[-max_rows:]), cursor)

    def _bottom(self, width: int) -> Line:
        if self._search.typing:
            return (Span("/", "accent"), Span(one_line(self._search.query)))
        if notice := self.message or self._notice():
            return (Span(notice, "warning"),)
        total = self._pages.live_item
        place = "end" if self._follow else f"{min(self._pages.entry_at(self._top) + 1, total):,} of {total:,}"
        parts = [f"Transcript · {place}", *HELP]
        while len(parts) > 1 and text_width(" · ".join(parts)) > width:
            parts.pop()
        return (Span(" · ".join(parts), "inverse"),)
