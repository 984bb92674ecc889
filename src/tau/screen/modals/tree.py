"""The session tree: every entry of the session, to continue from, to label, to fold and to search."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tau.core.conversation.tree_outline import LabelOf, Node, TreeOutline
from tau.screen.cells import clip_line
from tau.screen.input_events import Key
from tau.screen.lines import Line, Span
from tau.screen.modals import CANCELLED, Outcome
from tau.screen.modals.tree_filter import FILTER_ACTIONS, FILTERS, TreeSearch, shown_entries
from tau.screen.modals.tree_layout import (
    TreeRow,
    connector,
    foldable,
    lay_out,
    next_segment,
    previous_segment,
    visible_parents,
)
from tau.screen.panels import PanelView, Status
from tau.screen.panels.layout import hint, top_rule
from tau.screen.safe_text import one_line

EDIT_LABEL = "app.tree.editLabel"
COPY = "app.message.copy"
CYCLES = {"app.tree.filter.cycleForward": 1, "app.tree.filter.cycleBackward": -1}
MOVES = {"tui.select.up": -1, "tui.select.down": 1}
PAGES = {
    **{"tui.select.pageUp": -1, "tui.select.pageDown": 1},
    **{"tui.editor.cursorLeft": -1, "tui.editor.cursorRight": 1},
}
DELETE = "tui.editor.deleteCharBackward"
DELETE_ALL = "tui.editor.deleteWordBackward"
MAX_QUERY = 200  # characters
FIXED_ROWS = 3  # the rule, the search, the hint
STYLES = {"user": "accent", "assistant": "success", "compaction": "borderAccent", "branch_summary": "warning"}
NAMES = {"user": "user: ", "assistant": "assistant: "}


class _Rows:
    """The rows that are shown for a filter, a search and folded segments."""

    def __init__(self, outline: TreeOutline, filter_name: str) -> None:
        self.outline = outline
        self.filter = filter_name if filter_name in FILTERS else "default"
        self.query = ""
        self.folded: set[int] = set()
        self.on_path = _path(outline)
        self.rows: list[TreeRow] = []
        self._search: TreeSearch | None = None
        self._shown: list[bool] = []
        self._above: list[int] = []

    def update(self) -> None:
        """The filter, the search or a label has changed. Folded segments are unfolded."""
        outline = self.outline
        self.folded.clear()
        shown = shown_entries(outline, self.filter)
        if self.query:
            self._search = self._search or TreeSearch(outline.nodes)
            shown = self._search.found(self.query, shown, outline.labels)
        self._shown = shown
        self._above = visible_parents(outline.parents, shown)
        self.lay_out()

    def lay_out(self) -> None:
        self.rows = lay_out(self._above, self._shown, self.on_path, self.folded)

    def place_of(self, entry: int) -> int:
        """The row of an entry, or of its nearest ancestor that is shown, or the last row."""
        while entry >= 0 and not self._shown[entry]:
            entry = self._above[entry]
        return next((number for number, row in enumerate(self.rows) if row.at == entry), max(len(self.rows) - 1, 0))


class TreeModal:
    """The value of its outcome is the position of an entry: of "confirm", EDIT_LABEL or COPY.

    `time_label` makes the time of a label readable. `message` stands in the last row until the next key.
    """

    def __init__(
        self,
        outline: TreeOutline,
        *,
        filter_name: str = "default",
        time_label: Callable[[str], str] = str,
    ) -> None:
        self._rows = _Rows(outline, filter_name)
        self._rows.update()
        self._at = self._rows.place_of(outline.active)
        self._page = 1
        self._label_times = False
        self._time_label = time_label
        self.message = ""

    @property
    def chosen(self) -> int | None:
        """The chosen entry."""
        rows = self._rows.rows
        return rows[self._at].at if rows else None

    def label(self, entry: int) -> str:
        label = self._rows.outline.labels.get(entry)
        return label.text if label is not None else ""

    def set_label(self, entry: int, label: LabelOf | None) -> None:
        if label is None:
            self._rows.outline.labels.pop(entry, None)
        else:
            self._rows.outline.labels[entry] = label
        self._update()

    # Keys.

    def key(self, key: Key, actions: Sequence[str]) -> Outcome | None:
        self.message = ""
        if any(self._perform(action) for action in actions if action.startswith("app.tree.")):
            return None
        if (leaving := next((action for action in actions if action in (EDIT_LABEL, COPY)), None)) is not None:
            return None if self.chosen is None else Outcome(leaving, self.chosen)
        if key.id == "escape" or "tui.select.cancel" in actions:
            if not self._rows.query:
                return CANCELLED
            self._search("")
        elif "tui.select.confirm" in actions or key.id == "enter":
            return None if self.chosen is None else Outcome("confirm", self.chosen)
        elif (step := next((MOVES[action] for action in actions if action in MOVES), None)) is not None:
            self._at = (self._at + step) % max(len(self._rows.rows), 1)
        elif (step := next((PAGES[action] for action in actions if action in PAGES), None)) is not None:
            self._at = min(max(self._at + step * self._page, 0), max(len(self._rows.rows) - 1, 0))
        else:
            self._type(key, actions)
        return None

    def _perform(self, action: str) -> bool:
        rows = self._rows
        if action in FILTER_ACTIONS:
            wanted = FILTER_ACTIONS[action]
            rows.filter = "default" if rows.filter == wanted else wanted
            self._update()
        elif action in CYCLES:
            rows.filter = FILTERS[(FILTERS.index(rows.filter) + CYCLES[action]) % len(FILTERS)]
            self._update()
        elif action == "app.tree.toggleLabelTimestamp":
            self._label_times = not self._label_times
        elif action == "app.tree.foldOrUp":
            self._fold()
        elif action == "app.tree.unfoldOrDown":
            self._unfold()
        else:
            return False
        return True

    def _fold(self) -> None:
        rows = self._rows
        if not rows.rows:
            return
        row = rows.rows[self._at]
        if foldable(row) and row.at not in rows.folded:
            rows.folded.add(row.at)
            rows.lay_out()
        else:
            self._at = previous_segment(rows.rows, self._at)

    def _unfold(self) -> None:
        rows = self._rows
        if self.chosen in rows.folded:
            rows.folded.discard(rows.rows[self._at].at)
            rows.lay_out()
        else:
            self._at = next_segment(rows.rows, self._at)

    def _type(self, key: Key, actions: Sequence[str]) -> None:
        query = self._rows.query
        if DELETE in actions:
            self._search(query[:-1])
        elif DELETE_ALL in actions:
            self._search("")
        elif key.text:
            self._search((query + key.text)[:MAX_QUERY])

    def paste(self, text: str) -> None:
        self._search(" ".join(f"{self._rows.query}{text}".split())[:MAX_QUERY])

    def _search(self, query: str) -> None:
        if query != self._rows.query:
            self._rows.query = query
            self._update()

    def _update(self) -> None:
        """Show other rows; the chosen entry stays chosen if it is among them."""
        chosen = self.chosen
        self._rows.update()
        self._at = self._rows.place_of(self._rows.outline.active if chosen is None else chosen)

    # Rows.

    def rows(self, width: int, max_rows: int) -> PanelView:
        rows, room = self._rows, max(max_rows - FIXED_ROWS, 1)
        self._page = room
        first = min(max(self._at - room // 2, 0), max(len(rows.rows) - room, 0))
        shown = [self._row(number, width) for number in range(first, min(first + room, len(rows.rows)))]
        place = f"{self._at + 1} of {len(rows.rows)}" if rows.rows else ""
        query = one_line(rows.query) + (" " if rows.query.endswith(" ") else "")
        field: Line = (Span("> ", "accent"), Span(query)) if query else (Span("> ", "accent"), Span("search", "dim"))
        keys = ("Enter continues there", "Esc leaves", "Ctrl+O filter", "Ctrl+←/→ fold", "Shift+L label", "Ctrl+X copy")
        lines = [
            top_rule(f"Tree: {rows.filter}", Status(position=place), width),
            field,
            *(shown or [(Span("  Nothing found", "dim"),)]),
            hint(keys, width) if not self.message else (Span(f"  {self.message}", "warning"),),
        ]
        return PanelView(tuple(clip_line(one, width) for one in lines[:max_rows]), (1, min(2 + len(query), width - 1)))

    def _row(self, number: int, width: int) -> Line:
        row, outline = self._rows.rows[number], self._rows.outline
        node = outline.nodes[row.at]
        chosen = number == self._at
        spans = [
            Span("→ ", "accent") if chosen else Span("  "),
            Span(connector(row, self._rows.folded), "muted"),
            Span("• ", "accent") if row.at in self._rows.on_path else Span(""),
        ]
        if (label := outline.labels.get(row.at)) is not None:
            when = f"{self._time_label(label.timestamp)} " if self._label_times else ""
            spans += [Span(f"[{one_line(label.text, 100)}] ", "warning"), Span(when, "dim")]
        spans += _text(node, chosen=chosen)
        if row.at == outline.active:
            spans = [*clip_line(tuple(spans), max(width - 9, 1)), Span(" ← active", "accent")]
        return clip_line(tuple(span for span in spans if span.text), width)


def _text(node: Node, *, chosen: bool) -> list[Span]:
    bold = "bold" if chosen else ""
    name, text = NAMES.get(node.kind, ""), one_line(node.text)
    if name and not node.title:
        return [Span(name, STYLES[node.kind]), Span(text, bold)]
    about = f"[{one_line(node.title)}{': ' + text if text else ''}]"
    return [Span(name, STYLES.get(node.kind, "")), Span(about, f"{STYLES.get(node.kind, 'muted')} {bold}".strip())]


def _path(outline: TreeOutline) -> frozenset[int]:
    path, at = set(), outline.active
    while at >= 0:
        path.add(at)
        at = outline.parents[at]
    return frozenset(path)
