"""Completion: what the text before the cursor asks for, and the list of proposals below the editor.

Sources answer later, from threads or processes; an answer counts only if its query is still the current one.

    closed --text asks, or Tab--> waiting --offer--> open --accept, cancel, text asks no more--> closed
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from tau.core.text.terminal_text import escape_for_display
from tau.records.base import Value, replace
from tau.screen.cells import clip_line, text_width
from tau.screen.fuzzy import fuzzy_rank
from tau.screen.lines import Line, Span, plain_text
from tau.screen.mentions import BOUNDARY

Kind = Literal["command", "argument", "file", "path"]

DEFAULT_ROWS = 5
MAX_LABEL = 40  # cells
ACCEPTING = frozenset({"tui.select.confirm", "tui.input.submit", "tui.input.tab"})

_COMMAND = re.compile(r"/([^\s/]*)\Z")
_ARGUMENT = re.compile(r"/([^\s/]+)\s+(.*)\Z")
# These take long to compile.
_MENTION = rf'(?<![^{BOUNDARY}])@(?:"([^"]*)|([^\s"]*))\Z'
_PATH = r"""(?:(?<![^\s=])"([^"]*)|([^\s"'=\ud800-\udbff]*))\Z"""


class Query(Value):
    """What should be completed: the characters of the line from `start` to the cursor, which stand for `text`."""

    kind: Kind
    text: str
    start: int
    length: int
    command: str = ""  # whose argument it is
    quoted: bool = False
    forced: bool = False  # asked for with Tab


class Proposal(Value):
    """`value` replaces the query. A partial one, such as a folder, is completed further."""

    value: str
    label: str
    description: str = ""
    partial: bool = False
    submits: bool = False  # with Enter, the text is sent at once: a command that needs no argument
    optional: bool = False  # while it is the first row, Enter takes the text as it was typed


class Accepted(Value):
    """Replace `before` characters before the cursor, and `after` behind it, by `text`."""

    before: int
    text: str
    submits: bool = False
    after: int = 0


def query_at(before: str, *, first_line: bool, forced: bool = False) -> Query | None:
    """What the text before the cursor, in its line, asks for. Paths are completed only if `forced` (Tab)."""
    if first_line and before.startswith("!"):  # a shell command
        return path_query(before) if forced else None
    if first_line and (found := _COMMAND.match(before)):
        return Query("command", found[1], 0, len(before), forced=forced)
    if "@" in before and (found := re.search(_MENTION, before)):
        return _query("file", before, found, forced=forced)
    if first_line and (found := _ARGUMENT.match(before)):
        return Query("argument", found[2], found.start(2), len(found[2]), command=found[1], forced=forced)
    return path_query(before) if forced else None


def path_query(before: str) -> Query:
    """The path before the cursor, whatever it looks like."""
    found = re.search(_PATH, before)
    assert found is not None  # matches the empty text
    return _query("path", before, found, forced=True)


def _query(kind: Kind, before: str, found: re.Match[str], *, forced: bool) -> Query:
    quoted = found[1] is not None
    text = found[1] if quoted else found[2]
    return Query(kind, text, found.start(), len(before) - found.start(), quoted=quoted, forced=forced)


class CompletionList:
    """The list of proposals. Closed if `proposals` is empty."""

    def __init__(self, visible_rows: int = DEFAULT_ROWS) -> None:
        self.query: Query | None = None
        self.proposals: tuple[Proposal, ...] = ()
        self._answered: Query | None = None  # what the proposals are for: an older query until the next answer
        self.selected = 0
        self.show_rows(visible_rows)
        self._dismissed: int | None = None  # where the word begins whose list was cancelled

    def show_rows(self, number: int) -> None:
        """Show so many proposals at once, within limits."""
        self._visible = min(max(number, 3), 20)

    @property
    def open(self) -> bool:
        return bool(self.proposals)

    def text_changed(self, before: str, *, first_line: bool) -> Query | None:
        """Follow the text; return a query to send to the sources, if it is a new one."""
        query = query_at(before, first_line=first_line)
        if query is None:
            if self.query and self.query.kind == "path" and self.open:
                query = path_query(before)  # the list was opened with Tab and follows the path
            else:
                self.close()
                return None
        if self._dismissed == query.start:
            return None
        self._dismissed = None
        return self._ask(query)

    def force(self, before: str, *, first_line: bool) -> Query | None:
        """Tab in a closed list: complete a command, a mention or a path."""
        self._dismissed = None
        query = query_at(before, first_line=first_line, forced=True)
        return self._ask(query) if query else None

    def _ask(self, query: Query) -> Query | None:
        if query == self.query:
            return None
        if self.query and (query.kind, query.command) != (self.query.kind, self.query.command):
            self.proposals = ()
        self.query = query
        return query

    def offer(self, query: Query, proposals: Iterable[Proposal], after: str = "") -> Accepted | None:
        """Take the answer to a query. A single answer to Tab is accepted at once."""
        if query != self.query:
            return None
        self._show(query, proposals)
        if query.forced and len(self.proposals) == 1:
            return self.accept(after)
        if not self.proposals and query.forced:
            self.close()
        return None

    def _show(self, query: Query, proposals: Iterable[Proposal]) -> None:
        """Show the proposals for a query; a row that was selected stays selected."""
        chosen = self.proposals[self.selected].value if self.open and self.selected else None
        self.proposals = tuple(proposals)
        self._answered = query
        values = [proposal.value for proposal in self.proposals]
        self.selected = values.index(chosen) if chosen in values else 0

    def _drop_outdated(self) -> None:
        """Keep the proposals that match what was typed since they were offered: no key accepts another one."""
        if self.query is not None and self.query != self._answered:
            self._show(self.query, fuzzy_rank(self.query.text, self.proposals, _searched))

    def handle(self, actions: Sequence[str], after: str = "") -> Accepted | bool:
        """A key in the open list: True if it was used, an Accepted for Enter and Tab, False if it is not for the list.

        `after` is the text behind the cursor in its line.
        """
        if ACCEPTING.intersection(actions):
            self._drop_outdated()
        if not self.open:
            return False
        for action in actions:
            match action:
                case "tui.select.up":
                    self.move(-1)
                case "tui.select.down":
                    self.move(1)
                case "tui.select.pageUp":
                    self.page(-1)
                case "tui.select.pageDown":
                    self.page(1)
                case "tui.select.confirm" | "tui.input.submit":
                    if self.proposals[self.selected].optional and not self.selected:
                        return False
                    return self.accept(after) or True
                case "tui.input.tab":
                    accepted = self.accept(after)
                    return replace(accepted, submits=False) if accepted else True
                case "tui.select.cancel" | "app.interrupt":
                    self.cancel()
                case _:
                    continue
            return True
        return False

    def move(self, step: int) -> None:
        """Select the next row; after the last comes the first."""
        if self.open:
            self.selected = (self.selected + step) % len(self.proposals)

    def page(self, step: int) -> None:
        if self.open:
            self.selected = min(max(self.selected + step * self._visible, 0), len(self.proposals) - 1)

    def accept(self, after: str = "") -> Accepted | None:
        """Accept the selected row and close the list. An argument that is complete already is submitted."""
        if not self.open or not self.query:
            return None
        query, proposal = self.query, self.proposals[self.selected]
        self.close()
        drops_quote = query.quoted and after.startswith('"')
        complete = query.kind == "argument" and proposal.value == query.text
        return Accepted(query.length, proposal.value, proposal.submits or complete, 1 if drops_quote else 0)

    def cancel(self) -> None:
        """Close the list; it stays closed for this word."""
        dismissed = self.query.start if self.query else None
        self.close()
        self._dismissed = dismissed

    def close(self) -> None:
        self.query = None
        self.proposals = ()
        self._answered = None
        self.selected = 0
        self._dismissed = None

    # Rows

    def rows(self, width: int) -> tuple[Line, ...]:
        """The visible rows, at most `visible_rows` and a row that counts them."""
        count = len(self.proposals)
        top = min(max(self.selected - self._visible // 2, 0), max(count - self._visible, 0))
        shown = range(top, min(top + self._visible, count))
        labels = {index: _clean(self.proposals[index].label) for index in shown}
        column = min(max(map(text_width, labels.values()), default=0), MAX_LABEL, max(width - 2, 0))
        rows = [self._row(index, labels[index], column, width) for index in shown]
        if count > self._visible:
            rows.append((Span(_clip(f"  ({self.selected + 1}/{count})", width), "dim"),))
        return tuple(rows)

    def _row(self, index: int, label: str, column: int, width: int) -> Line:
        chosen = index == self.selected
        description = _clean(self.proposals[index].description)
        label = _clip(label, column)
        start = _clip("→ " if chosen else "  ", width)
        spans = [Span(start + label, "accent" if chosen else "")]
        room = width - 4 - column
        if description and room >= 10:
            gap = " " * (column - text_width(label) + 2)
            spans.append(Span(gap + _clip(description, room), "accent" if chosen else "muted"))
        return tuple(span for span in spans if span.text)


def _searched(proposal: Proposal) -> str:
    return f"{proposal.label} {proposal.value}"


def _clean(text: str) -> str:
    return escape_for_display(" ".join(text.split()), keep="")


def _clip(text: str, width: int) -> str:
    return plain_text(clip_line((Span(text),), width))
