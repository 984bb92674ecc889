"""Cards of tool calls: title, output as it arrives, the result."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from tau.core.text.highlight import language_of_file
from tau.records.base import encode, to_builtins
from tau.records.events import Outcome
from tau.screen.cards.diff import diff_rows
from tau.screen.cards.messages import image_text, images_of, text_of
from tau.screen.cards.text import clip, duration, head, indented, more, text_lines
from tau.screen.cards.tool_titles import arriving_arguments, title_lines
from tau.screen.code import code_rows
from tau.screen.lines import Line, Span
from tau.screen.look import Look, wrap
from tau.screen.markdown import prefixed
from tau.screen.renderers import Renderers
from tau.screen.safe_text import clean_text, output_lines

RING_LINES = 200  # of the output of a running call
SHOWN_FROM_S = 0.1  # a shorter duration is not shown
ELAPSED_FROM_S = 1.0
TITLE_ROWS = 10

Status = Literal["arriving", "running", "done", "failed", "aborted"]


class Preview(NamedTuple):
    """How many rows of a result are shown unless it is expanded, and from which end."""

    rows: int
    end: Literal["head", "tail"] = "head"


PREVIEWS = {
    "bash": Preview(5, "tail"),
    "read": Preview(10),
    "write": Preview(10),
    "ls": Preview(20),
    "find": Preview(20),
    "grep": Preview(15),
}
OTHER = Preview(10)

_SIGNS: dict[Status, tuple[str, str]] = {
    "arriving": ("•", "muted"),
    "running": ("•", "accent"),
    "done": ("✓", "success"),
    "failed": ("✗", "error"),
    "aborted": ("■", "warning"),
}
_WORDS: dict[Status, str] = {"failed": "failed: ", "aborted": "aborted: "}
_NOTE = re.compile(r"\n\n\[([^\n]*)\]\Z")


class ToolCard:
    """A tool call. It is told what happens to the call, and shows it."""

    def __init__(
        self, name: str, arguments: Mapping[str, Any] | None = None, renderers: Renderers | None = None
    ) -> None:
        self.name = name
        self._call_drawing = renderers.tool(name, "call") if renderers else None
        self._result_drawing = renderers.tool(name, "result") if renderers else None
        self.status: Status = "arriving"
        self._arguments = arguments
        self._arriving = ""  # JSON text of the arguments so far
        self._outcome: Outcome | None = None
        self._started: float | None = None
        self._took: float | None = None
        self._version = 0

    def add_arguments(self, delta: str) -> None:
        if len(self._arriving) < 8_000:
            self._arriving += delta
            self._version += 1

    def start(self, arguments: Any, now: float | None) -> None:
        self._arguments = arguments if isinstance(arguments, Mapping) else {"arguments": arguments}
        self._arriving = ""
        if now is not None:
            self.status, self._started = "running", now
        self._version += 1

    def update(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self._version += 1

    def end(self, outcome: Outcome, *, is_error: bool, took: float | None = None) -> None:
        self.status = "failed" if is_error else "done"
        if is_error and text_of(outcome.content).rstrip().endswith(("Command aborted", "Operation aborted")):
            self.status = "aborted"
        self._outcome, self._took = outcome, took
        self._version += 1

    def abort(self) -> None:
        """The call will not run, or its result will not come."""
        if not self.finished:
            self.status = "aborted"
            self._version += 1

    @property
    def finished(self) -> bool:
        return self.status in ("done", "failed", "aborted")

    def state(self, now: float) -> Hashable:
        drawings = (self._call_drawing, self._result_drawing)
        return self._version, self._elapsed(now), *(drawing.version for drawing in drawings if drawing)

    def rows(self, look: Look, now: float) -> list[Line]:
        arguments = self._arguments if self._arguments is not None else arriving_arguments(self._arriving)
        body = self._body(arguments, look.narrower(2))
        if self._took is not None and self._took >= SHOWN_FROM_S:
            body.append((Span(f"Took {duration(self._took)}", "muted"),))
        elif seconds := self._elapsed(now):
            body.append((Span(f"Elapsed {duration(seconds).replace('.0s', 's')}", "muted"),))
        return [*self._title(arguments, look), *indented(body, look)]

    def _elapsed(self, now: float) -> int:
        if self._started is None or self.finished or now - self._started < ELAPSED_FROM_S:
            return 0
        return int(now - self._started)

    def _title(self, arguments: Mapping[str, Any], look: Look) -> list[Line]:
        inside = look.narrower(2)
        lines = title_lines(self.name, arguments)
        if self._call_drawing and self._arguments is not None:
            lines = self._call_drawing.lines(self._arguments, 0, inside, self._options()) or lines
        if look.plain:
            return prefixed(lines, (Span(_WORDS.get(self.status, "")),), ())
        sign, style = _SIGNS[self.status]
        rows = [row for line in lines for row in wrap(line, inside.width)]
        return prefixed(head(rows, TITLE_ROWS, inside), (Span(f"{sign} ", style),), (Span("  "),))

    def _body(self, arguments: Mapping[str, Any], look: Look) -> list[Line]:
        outcome = self._outcome
        if outcome is None:
            return self._content(arguments, look)
        if self._result_drawing:
            data = to_builtins(outcome)
            drawn = self._result_drawing.lines(data, self._version, look, self._options())
            if drawn is not None:
                return drawn
        text, pictures = text_of(outcome.content), images_of(outcome.content)
        images: list[Line] = [clip((Span(image_text(image), "muted"),), look) for image in pictures]
        if self.status == "failed":
            return [*_failure(text, look), *images]
        if self.name == "edit" and (diff := _detail(outcome.details, "diff")):
            return diff_rows(diff, look)
        if self.name == "write":
            return self._content(arguments, look)
        return [*self._output(text, arguments, look), *images]

    def _options(self) -> dict[str, bool]:
        return {"isPartial": not self.finished, "isError": self.status == "failed"}

    def _content(self, arguments: Mapping[str, Any], look: Look) -> list[Line]:
        """What `write` writes."""
        content = arguments.get("content")
        if self.name != "write" or not isinstance(content, str):
            return []
        return _head_of_code(content, str(arguments.get("path", "")), PREVIEWS["write"].rows, look)

    def _output(self, text: str, arguments: Mapping[str, Any], look: Look) -> list[Line]:
        note = _NOTE.search(text)
        if note:
            text = text[: note.start()]
        preview = PREVIEWS.get(self.name, OTHER)
        if self.name == "bash":
            rows = tail_rows(text, preview.rows, look)
        elif self.name == "read":
            rows = _head_of_code(text, str(arguments.get("path", "")), preview.rows, look)
        else:
            rows = _head_of_text(text, preview.rows, look)
            if self.name not in PREVIEWS and look.expanded and arguments:
                rows = [*text_lines(_pretty(arguments), look, "muted"), *rows]
        if note:
            rows += text_lines(f"[{note[1]}]", look, "warning")
        return rows


def _failure(text: str, look: Look) -> list[Line]:
    return tail_rows(text, OTHER.rows, look, "error")


def tail_rows(text: str, count: int, look: Look, style: str = "toolOutput") -> list[Line]:
    """The end of command output. Unless it is expanded, only what is shown is cleaned and wrapped."""
    text = text.rstrip("\n")
    if not text:
        return []
    if look.expanded or look.plain:
        return [row for line in output_lines(text, style) for row in wrap(line, look.width)]
    *_, shown = _last_lines(text, count)
    longest = look.width * count
    lines = output_lines("\n".join(line[-longest * 4 :] for line in shown), style)
    rows = [row for line in lines for row in wrap(line, look.width)]
    above = text.count("\n") + 1 - len(shown)
    if len(rows) > count:
        above, rows = max(above, 1), rows[-count:]
    return [more(above, "earlier", look), *rows] if above else rows


def _last_lines(text: str, count: int) -> tuple[str, list[str]]:
    parts = text.rsplit("\n", count)
    return (parts[0], parts[1:]) if len(parts) > count else ("", parts)


def _head_of_text(text: str, count: int, look: Look, style: str = "toolOutput") -> list[Line]:
    text = text.rstrip("\n")
    if not text:
        return []
    shown, left = _first_lines(text, count, look)
    return _with_rest(text_lines(shown, look, style), count, left, look)


def _head_of_code(text: str, path: str, count: int, look: Look) -> list[Line]:
    text = text.rstrip("\n")
    if not text:
        return []
    shown, left = _first_lines(text, count, look)
    rows = code_rows(clean_text(shown), language_of_file(path), look, "toolOutput")
    return _with_rest(rows, count, left, look)


def _first_lines(text: str, count: int, look: Look) -> tuple[str, int]:
    """The lines that are shown, and the number of those that are not."""
    if look.expanded:
        return text, 0
    parts = text.split("\n", count)
    left = parts[count].count("\n") + 1 if len(parts) > count else 0
    longest = max(look.width, 80) * count
    return "\n".join(part[:longest] for part in parts[:count]), left


def _with_rest(rows: Sequence[Line], count: int, left: int, look: Look) -> list[Line]:
    if look.expanded or (len(rows) <= count and not left):
        return list(rows)
    return [*rows[:count], more(left or 1, "more", look)]


def _detail(details: Any, name: str) -> str:
    value = details.get(name) if isinstance(details, Mapping) else None
    return value if isinstance(value, str) else ""


def _pretty(arguments: Mapping[str, Any]) -> str:
    return "\n".join(
        f"{name}: {value if isinstance(value, str) else encode(value).decode('utf-8', 'replace')}"
        for name, value in arguments.items()
    )
