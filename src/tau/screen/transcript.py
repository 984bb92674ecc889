"""The transcript: sections, as rows with absolute numbers.

Rows that have scrolled off the screen are forgotten. A frame costs as much as what is on the screen and what is
unfinished, however long the session is. What turns events into sections is loaded by the first event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tau.records.base import UNSET, replace
from tau.records.messages import BashExecution
from tau.screen.cards import Card
from tau.screen.cards.notices import LineCard, NoticeCard, NoticeKind
from tau.screen.layout import MAX_WAITING, forget, hide, lay_out
from tau.screen.lines import Line
from tau.screen.look import Look
from tau.screen.renderers import Renderers
from tau.screen.sections import CardSection, Section

if TYPE_CHECKING:
    from tau.screen.cards.bash import BashCard
    from tau.screen.session_events import SessionEvents

RESUME_LINES = 200


class Transcript:
    """`readable` rewrites errors of model servers for a person. `renderers` are the renderers of extensions."""

    def __init__(
        self,
        *,
        hyperlinks: bool = False,
        readable: Callable[[str], str] = str,
        renderers: Renderers | None = None,
    ) -> None:
        self.changed = True
        self.look = Look(80, hyperlinks=hyperlinks)
        self.renderers = renderers or Renderers()
        self.readable = readable
        self._sections: list[Section] = []
        self.live_top = 0  # the first row that can still change: a resize draws it again, with all below it
        self._base = 0  # the absolute number of the first row of the first section
        self._shown = 0  # the number of the first row that was not shown yet
        self._loaded_events: SessionEvents | None = None

    # What happens

    def apply(self, event: Any, now: float) -> None:
        """Show an event of a session, as its client gets it."""
        if self._events.apply(event, now):
            self.changed = True

    def add(self, section: Section) -> None:
        self._sections.append(section)
        self.changed = True

    def add_card(self, card: Card) -> None:
        self.add(CardSection(card))

    def add_notice(self, text: str, kind: NoticeKind = "info") -> None:
        """A problem that is reported again at once is counted instead of repeated."""
        last = self._sections[-1] if self._sections else None
        card = last.block.card if isinstance(last, CardSection) and not last.block.forgotten else None
        if isinstance(card, NoticeCard) and card.repeat(text, kind):
            self.changed = True
        else:
            self.add_card(NoticeCard(text, kind))

    def add_rule(self, text: str) -> None:
        """Another session or branch begins."""
        self.add_card(LineCard(text, rule=True))

    def replace_line(self, key: str, text: str) -> None:
        """Show a line about `key`, in place of the last one if nothing came after it."""
        last = self._sections[-1] if self._sections else None
        if isinstance(last, CardSection) and last.key == key and not last.block.forgotten:
            self._sections.pop()
        self.add(CardSection(LineCard(text), key=key))

    def add_entries(self, entries: Sequence[Any], limit: int = RESUME_LINES, before: int = 0) -> None:
        """Show the last lines of a session: entries or messages of one branch, in order, and `before` earlier ones."""
        self._events.add_entries(entries, limit, before)

    def start_bash(self, command: str, now: float, *, hidden: bool = False, id: object = UNSET) -> BashCard:
        """A command of the person at the terminal runs. Its output comes by BashUpdate with its id or `add_output`."""
        return self._events.start_bash(command, now, hidden=hidden, id=id)

    def end_bash(self, result: BashExecution, now: float, id: object = UNSET) -> None:
        self._events.end_bash(result, now, id)
        self.changed = True

    @property
    def started(self) -> bool:
        """True if anything has been shown."""
        return bool(self._sections or self._base)

    @property
    def _events(self) -> SessionEvents:
        if self._loaded_events is None:
            from tau.screen.session_events import SessionEvents

            self._loaded_events = SessionEvents(self, self.renderers, self.readable)
        return self._loaded_events

    # What is shown

    @property
    def expanded(self) -> bool:
        """Results of tools and summaries are shown whole (Ctrl+O)."""
        return self.look.expanded

    @expanded.setter
    def expanded(self, expanded: bool) -> None:
        self.set_look(expanded=expanded)

    @property
    def hide_thinking(self) -> bool:
        """Thinking is one line (Ctrl+T)."""
        return self.look.hide_thinking

    @hide_thinking.setter
    def hide_thinking(self, hide_thinking: bool) -> None:
        self.set_look(hide_thinking=hide_thinking)

    def set_look(self, **changes: Any) -> None:
        """Change how everything on the screen is shown: fields of Look other than the width."""
        self.look = replace(self.look, **changes)
        self.changed = True

    def rows(self, first: int, width: int, now: float) -> tuple[int, list[Line]]:
        """The rows from `first` on, and the absolute number of the first of them (if there is none, of the next)."""
        self.changed = False
        if width != self.look.width and first > self._base:  # what is printed has the width before
            self._base = forget(list(lay_out(self._sections, self._base, first, self.look, now)), first, self._base)
        if width != self.look.width:
            self.look = replace(self.look, width=width)
        look = self.look
        laid_out = list(lay_out(self._sections, self._base, first, look, now))
        self._base = forget(laid_out, first, self._base)
        end = laid_out[-1].end if laid_out else self._base
        if end - self._shown > MAX_WAITING:
            laid_out = list(lay_out(self._sections, self._base, first, look, now))  # `forget` changed the numbers
            if hide(laid_out, self._shown, end - MAX_WAITING, look):
                laid_out = list(lay_out(self._sections, self._base, first, look, now))
                end = laid_out[-1].end if laid_out else self._base
        self._sections = [section for section in self._sections if section.open or section.blocks(look, now)]
        self._shown = end
        self.live_top = max(first, next((placed.start for placed in laid_out if placed.live), end))
        out: list[Line] = []
        for placed in laid_out:
            if placed.end > first:
                out += placed.rows[first - placed.start :] if placed.start < first else placed.rows
        return max(min(first, end), self._base), out
