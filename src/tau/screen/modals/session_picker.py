"""The session picker: the sessions of this folder or of all, to search, sort, filter, rename, delete and open."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple, overload

from tau.records.replies import SessionRow
from tau.screen.footer import short_folder
from tau.screen.input_events import Key
from tau.screen.modals import Modal, Outcome
from tau.screen.modals.search_list import ListRow, SearchList
from tau.screen.modals.session_order import age_text, recent, threaded
from tau.screen.modals.session_search import MAX_TITLE, SessionItem, SessionQuery
from tau.screen.modals.text_field import TextField
from tau.screen.panels import PanelView
from tau.screen.safe_text import one_line

RENAME = "app.session.rename"
DELETE = "app.session.delete"
DELETE_IF_NO_QUERY = "app.session.deleteNoninvasive"
TOGGLE_FOLDER = "tui.input.tab"
TOGGLE_SORT = "app.session.toggleSort"
TOGGLE_NAMED = "app.session.toggleNamedFilter"
TOGGLE_PATH = "app.session.togglePath"
SORTS: tuple[Sort, ...] = ("threaded", "recent", "relevance")
Sort = Literal["threaded", "recent", "relevance"]


class PickerFacts(NamedTuple):
    """What the list is about. `current` is the file of the open session; `now` is in Unix milliseconds."""

    cwd: str
    home: str
    current: str | None
    now: float


class _Options(NamedTuple):
    everywhere: bool = False
    sort: Sort = "threaded"
    named: bool = False
    paths: bool = False


class PickerCalls(NamedTuple):
    """What the list asks for: the sessions of all folders, another name of a session, its deletion."""

    load: Callable[[], None]
    rename: Callable[[SessionRow, str], None]
    delete: Callable[[SessionRow], None]


class _Question(NamedTuple):
    """A question in place of the list, and what to do with its answer."""

    modal: Modal
    answer: Callable[[Any], None]


class SessionPicker:
    """The value of its outcome is a SessionRow."""

    def __init__(
        self,
        items: Iterable[SessionItem],
        facts: PickerFacts,
        calls: PickerCalls,
        hints: Sequence[str] = (),
        query: str = "",
    ) -> None:
        self.progress = ""  # such as "1,200 of 5,000"
        self._items = {item.row.path: item for item in items}
        self._facts = facts
        self._calls = calls
        self._question: _Question | None = None
        self._options = _Options()
        self._flat = False  # a query is there, so threads are not shown
        self._rows = _Rows([], facts, self._options)
        self._list = SearchList(
            "",
            self._rows,
            handlers={
                RENAME: self._ask_name,
                DELETE: self._ask_to_delete,
                DELETE_IF_NO_QUERY: self._ask_to_delete,
                TOGGLE_FOLDER: self._toggle_folder,
                TOGGLE_SORT: self._toggle_sort,
                TOGGLE_NAMED: lambda: self._set(named=not self._options.named),
                TOGGLE_PATH: lambda: self._set(paths=not self._options.paths),
            },
            hints=hints,
            query=query,
            rank=self._rank,
        )
        self.refresh()

    @property
    def everywhere(self) -> bool:
        return self._options.everywhere

    @property
    def rows_shown(self) -> Sequence[ListRow]:
        """The rows that the query matches, in their order."""
        return [self._rows[at] for at in self._list.found]

    # Items.

    def add(self, items: Iterable[SessionItem]) -> None:
        """Add sessions, or more of what is known about them. `refresh` shows them."""
        for item in items:
            known = self._items.get(item.row.path)
            if known is None or not known.complete or item.complete:
                self._items[item.row.path] = item

    def remove(self, path: str) -> None:
        self._items.pop(path, None)
        self.refresh()

    def refresh(self) -> None:
        """Apply scope, filter and order again. The chosen session stays chosen."""
        chosen = self._list.chosen
        path = self._rows.placed[chosen][0].row.path if chosen is not None else self._facts.current
        options = self._options
        wanted = [item for item in self._items.values() if self._wanted(item)]
        self._flat = bool(self._list.query)
        order = threaded if options.sort == "threaded" and not self._flat else recent
        self._rows = _Rows(order(wanted), self._facts, options)
        at = next((at for at, (item, _) in enumerate(self._rows.placed) if item.row.path == path), None)
        self._list.replace_rows(self._rows, at)
        words = ["all folders" if options.everywhere else "this folder", options.sort, "named" if options.named else ""]
        self._list.title = " · ".join(["Sessions", *(word for word in [*words, self.progress] if word)])

    def _wanted(self, item: SessionItem) -> bool:
        named = isinstance(item.row.name, str) and bool(item.row.name)
        return (self._options.everywhere or item.row.cwd == self._facts.cwd) and (named or not self._options.named)

    def _rank(self, query: str, indexes: Sequence[int]) -> Sequence[int]:
        parsed, placed = SessionQuery.parse(query), self._rows.placed
        scores = [(parsed.score(placed[at][0]), at) for at in indexes]
        found = [(score, at) for score, at in scores if score is not None]
        if self._options.sort != "recent":
            found.sort()
        return [at for _, at in found]

    # Keys.

    def key(self, key: Key, actions: Sequence[str]) -> Outcome | None:
        if self._question is not None:
            self._answer(self._question, self._question.modal.key(key, actions))
            return None
        if DELETE_IF_NO_QUERY in actions and self._list.query:
            return None
        outcome = self._list.key(key, actions)
        if bool(self._list.query) != self._flat:
            self.refresh()
        if outcome is None or outcome.action == "cancel":
            return outcome
        return Outcome(outcome.action, self._rows.placed[outcome.value][0].row)

    def paste(self, text: str) -> None:
        if self._question is not None:
            self._question.modal.paste(text)
            return
        self._list.paste(text)
        self.refresh()

    def rows(self, width: int, max_rows: int) -> PanelView:
        shown: Modal = self._list if self._question is None else self._question.modal
        return shown.rows(width, max_rows)

    # Questions.

    def _answer(self, question: _Question, outcome: Outcome | None) -> None:
        if outcome is not None:
            self._question = None
            if outcome.action == "confirm":
                question.answer(outcome.value)

    @property
    def _chosen(self) -> SessionRow | None:
        return None if self._list.chosen is None else self._rows.placed[self._list.chosen][0].row

    def _ask_name(self) -> None:
        row = self._chosen
        if row is not None:
            name = row.name if isinstance(row.name, str) else ""
            field = TextField("Name of the session", text=name, hint_of_enter="Enter saves")
            self._question = _Question(field, lambda text: self._calls.rename(row, text))

    def _ask_to_delete(self) -> None:
        row = self._chosen
        if row is not None:
            title = one_line(SessionItem(row).title[:MAX_TITLE])
            choice = SearchList(f"Delete {title}?", [ListRow("Keep it"), ListRow("Delete it", row.path)])
            self._question = _Question(choice, lambda at: self._calls.delete(row) if at == 1 else None)

    def _toggle_folder(self) -> None:
        self._set(everywhere=not self._options.everywhere)
        if self._options.everywhere:
            self._calls.load()

    def _toggle_sort(self) -> None:
        self._set(sort=SORTS[(SORTS.index(self._options.sort) + 1) % len(SORTS)])

    def _set(self, **changes: object) -> None:
        self._options = self._options._replace(**changes)  # type: ignore[arg-type]
        self.refresh()


class _Rows(Sequence[ListRow]):
    """The rows of the list; each is made when it is drawn."""

    def __init__(self, placed: list[tuple[SessionItem, int]], facts: PickerFacts, options: _Options) -> None:
        self.placed = placed
        self._facts = facts
        self._options = options

    def __len__(self) -> int:
        return len(self.placed)

    @overload
    def __getitem__(self, at: int) -> ListRow: ...
    @overload
    def __getitem__(self, at: slice) -> list[ListRow]: ...
    def __getitem__(self, at: int | slice) -> ListRow | list[ListRow]:
        if isinstance(at, slice):
            return [self._row(item, depth) for item, depth in self.placed[at]]
        return self._row(*self.placed[at])

    def _row(self, item: SessionItem, depth: int) -> ListRow:
        row, facts = item.row, self._facts
        words = [
            age_text(facts.now - row.modified),
            short_folder(row.path, facts.home) if self._options.paths else "",
            short_folder(row.cwd, facts.home) if self._options.everywhere and not self._options.paths else "",
            f"{row.message_count} messages" if item.complete else "",
        ]
        mark = "✓" if row.path == facts.current else ""
        indent = "  " * (depth - 1) + "└ " if depth else ""
        return ListRow(
            indent + " ".join(item.title[:MAX_TITLE].split()), " · ".join(word for word in words if word), mark=mark
        )
