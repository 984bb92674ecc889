"""The card of a command that the person at the terminal runs with `!` or `!!`."""

from __future__ import annotations

from collections.abc import Hashable

from tau.records.messages import BashExecution
from tau.screen.cards.previews import tail_rows
from tau.screen.cards.text import duration, indented, more, text_lines
from tau.screen.cards.tools import RING_LINES, SHOWN_FROM_S
from tau.screen.lines import Line, Span
from tau.screen.look import Look, wrap
from tau.screen.markdown import prefixed
from tau.screen.safe_text import clean_text

PREVIEW_ROWS = 20
MAX_LIVE_CHARACTERS = 50_000


class BashCard:
    """`hidden`: the model is not told (`!!`)."""

    def __init__(self, command: str, now: float | None = None, *, hidden: bool = False) -> None:
        self._command, self._hidden = command, hidden
        self._started = now
        self._took: float | None = None
        self._output = ""
        self._dropped = 0  # lines that are not kept
        self._result: BashExecution | None = None
        self._version = 0

    def add_output(self, delta: str) -> None:
        self._output += delta
        self._version += 1
        lines = self._output.count("\n")
        if lines > 2 * RING_LINES:
            *_, self._output = self._output.split("\n", lines - RING_LINES)
            self._dropped += lines - RING_LINES
        if len(self._output) > 2 * MAX_LIVE_CHARACTERS:
            self._output = self._output[-MAX_LIVE_CHARACTERS:]

    def end(self, result: BashExecution, now: float | None = None) -> None:
        self._result = result
        if now is not None and self._started is not None:
            self._took = now - self._started
        self._version += 1

    @property
    def finished(self) -> bool:
        return self._result is not None

    def state(self, now: float) -> Hashable:
        return self._version

    def rows(self, look: Look, now: float) -> list[Line]:
        style = "dim" if self._hidden else "bashMode"
        sign = "!! " if self._hidden else "! "
        inside = look.narrower(len(sign))
        lines = clean_text(self._command).strip("\n").split("\n")
        title = [row for line in lines for row in wrap((Span(line, f"{style} bold"),), inside.width)]
        rows = prefixed(title, (Span(sign, f"{style} bold"),), (Span(" " * len(sign)),))
        return [*rows, *indented(self._body(look.narrower(2)), look)]

    def _body(self, look: Look) -> list[Line]:
        style = "dim" if self._hidden else "toolOutput"
        text = self._result.output if self._result is not None else self._output
        rows = tail_rows(text, PREVIEW_ROWS, look, style)
        if self._dropped and self._result is None and look.expanded:
            rows.insert(0, more(self._dropped, "earlier", look))
        return rows + [row for note in self._notes() for row in text_lines(note, look, "muted")]

    def _notes(self) -> list[str]:
        notes: list[str] = []
        if (result := self._result) is not None:
            if result.cancelled:
                notes.append("Stopped")
            elif isinstance(result.exit_code, int) and result.exit_code:
                notes.append(f"Exit code {result.exit_code}")
            if result.truncated and result.full_output_path:
                notes.append(f"Truncated; full output: {result.full_output_path}")
        if self._took is not None and self._took >= SHOWN_FROM_S:
            notes.append(f"Took {duration(self._took)}")
        return notes
