"""A panel with rows of which one is chosen: select and confirm dialogs, and permission questions.

Arrows and Enter, or the digit of a row, choose. Letters do nothing, so that no word of a sentence is an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tau.core.text.terminal_text import escape_hidden
from tau.records.base import Value, replace
from tau.screen.cells import wrap_line
from tau.screen.input_events import Key
from tau.screen.lines import Line, Span, line
from tau.screen.panels import Answer, PanelView, Status
from tau.screen.panels.field import FieldPanel
from tau.screen.panels.layout import fitted, hint, top_rule, window, wrapped

Body = Callable[[int], Sequence[Line]]  # the text above the rows, for a width
MOVES = {"up": -1, "down": 1, "tui.select.up": -1, "tui.select.down": 1}
PAGES = {"pageUp": -1, "pageDown": 1, "tui.select.pageUp": -1, "tui.select.pageDown": 1}
FOCUS_HINT = "Tab answers"
MAX_OPTION_LINES = 5


class Row(Value):
    """`asks_why`: the answer needs a text, which is asked for when the row is chosen."""

    label: str
    answer: Answer
    asks_why: bool = False


class Question(Value):
    """`cancelled` is the answer of Escape, and `cancels` says what that means."""

    title: str
    body: Body
    rows: Sequence[Row]
    start: int = 0  # the row that is chosen first
    cancelled: Answer = Answer(None)
    cancels: str = "Esc cancels"
    can_stop_clock: bool = False


def text_body(text: str) -> Body:
    text = text.strip("\n")
    return (lambda width: wrapped(text, width)) if text else lambda width: ()


class ChoicePanel:
    def __init__(self, question: Question) -> None:
        self.question = question
        self.stops_clock = False  # the person wants the deadline to stop
        self.chosen = question.start
        self._scrolled = 0
        self._page = 1
        self._body: tuple[int, Sequence[Line]] = (-1, ())  # for a width
        self._reason: FieldPanel | None = None

    def wants(self, key: Key, actions: Sequence[str]) -> bool:
        if self._reason is not None:
            return self._reason.wants(key, actions)
        if _step(MOVES, key, actions) or _step(PAGES, key, actions) or _confirms(key, actions):
            return True
        return self._row_of(key) is not None or (key.id == "space" and self.question.can_stop_clock)

    def key(self, key: Key, actions: Sequence[str]) -> Answer | None:
        if self._reason is not None:
            return self._key_of_reason(key, actions)
        if key.id == "escape" or "tui.select.cancel" in actions:
            return self.question.cancelled
        if step := _step(MOVES, key, actions):
            self.chosen = (self.chosen + step) % max(len(self.question.rows), 1)
        elif step := _step(PAGES, key, actions):
            self._scrolled += step * self._page
        elif key.id == "space":
            self.stops_clock = self.question.can_stop_clock
        elif _confirms(key, actions) and self.question.rows:
            return self._choose(self.chosen)
        elif (row := self._row_of(key)) is not None:
            return self._choose(row)
        return None

    def paste(self, text: str) -> bool:
        return self._reason is not None and self._reason.paste(text)

    def rows(self, width: int, max_rows: int, status: Status) -> PanelView:
        if self._reason is not None:
            return self._reason.rows(width, max_rows, status)
        top = top_rule(_one_line(self.question.title), status, width)
        bottom = hint(self._hints(status), width)
        room = max(max_rows - 2, 1)
        body = self._body_lines(width)
        options, chosen = self._options(width, room, marked=status.takes_keys)
        # The rows come first: without them there is no answer. Both scroll if they do not fit.
        option_room = min(len(options), max(room - len(body), room - room // 3))
        shown = _around(options, chosen, option_room)
        self._page = max(room - len(shown) - 1, 1)
        self._scrolled, text = window(body, self._scrolled, room - len(shown))
        if text and len(text) + len(shown) < room:
            text.append(())
        lines = [top, *text, *shown, bottom] if max_rows > 2 else shown
        return PanelView(fitted(lines, width, max_rows))

    def _hints(self, status: Status) -> list[str]:
        if not status.focused:
            return [FOCUS_HINT]
        stop = self.question.can_stop_clock and not self.stops_clock
        return ["↑↓ Enter or a digit answers", self.question.cancels, "Space stops the clock" if stop else ""]

    def _options(self, width: int, room: int, *, marked: bool) -> tuple[list[Line], int]:
        """The lines of the options that may be shown, and the first line of the chosen one.

        Long options wrap, since they say what they allow. The chosen one is marked when keys can answer.
        """
        lines: list[Line] = []
        first = 0
        start = max(self.chosen - room, 0)
        for index, row in enumerate(self.question.rows[start : self.chosen + room + 1], start):
            mark, style = ("→ ", "accent bold") if marked and index == self.chosen else ("  ", "")
            first = len(lines) if index == self.chosen else first
            digit = str(index + 1) if index < 9 else " "
            rows = wrap_line(line(_one_line(row.label), style), max(width - 4, 1))[:MAX_OPTION_LINES]
            lines.append((Span(mark, "accent"), Span(f"{digit} ", style or "dim"), *rows[0]))
            lines += [(Span("    "), *more) for more in rows[1:]]
        return lines, first

    def _body_lines(self, width: int) -> Sequence[Line]:
        if self._body[0] != width:
            self._body = width, self.question.body(width)
        return self._body[1]

    def _row_of(self, key: Key) -> int | None:
        """The row whose digit this is."""
        digits = "123456789"[: len(self.question.rows)]
        return digits.index(key.id) if len(key.id) == 1 and key.id in digits else None

    def _choose(self, index: int) -> Answer | None:
        row = self.question.rows[index]
        self.chosen = index
        if not row.asks_why:
            return row.answer
        self.stops_clock = self.question.can_stop_clock  # the reason takes as long as it takes
        self._reason = FieldPanel(f"{self.question.title} {row.label}", hint_of_enter="Enter denies")
        return None

    def _key_of_reason(self, key: Key, actions: Sequence[str]) -> Answer | None:
        assert self._reason is not None
        answer = self._reason.key(key, actions)
        if answer is None:
            return None
        self._reason = None
        if answer.value is None:
            self.chosen = self.question.start
            return None
        return replace(self.question.rows[self.chosen].answer, reason=str(answer.value).strip())


def _step(table: dict[str, int], key: Key, actions: Sequence[str]) -> int:
    return next((table[name] for name in (key.id, *actions) if name in table), 0)


def _confirms(key: Key, actions: Sequence[str]) -> bool:
    return key.id == "enter" or "tui.select.confirm" in actions


def _around(options: list[Line], chosen: int, rows: int) -> list[Line]:
    """The options around the chosen one, if they do not fit."""
    first = min(max(chosen - rows // 2, 0), max(len(options) - rows, 0))
    return options[first : first + rows]


def _one_line(text: str) -> str:
    return escape_hidden(text.replace("\n", " ")).strip()
