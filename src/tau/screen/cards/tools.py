"""Cards of tool calls: title, output as it arrives, the result."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from typing import Any, Literal

from tau.records.base import encode, replace, to_builtins
from tau.records.events import Outcome
from tau.records.messages import Text
from tau.screen.cards.diff import diff_rows
from tau.screen.cards.messages import image_text, images_of, text_of
from tau.screen.cards.previews import OTHER_ROWS, PREVIEW_ROWS, head_of_code, head_of_text, last_lines, tail_rows
from tau.screen.cards.text import clip, duration, head, indented, text_lines
from tau.screen.cards.tool_titles import arriving_arguments, title_lines
from tau.screen.lines import Line, Span
from tau.screen.look import Look, wrap
from tau.screen.markdown import prefixed
from tau.screen.renderers import Renderers

RING_LINES = 200  # of the output of a running call
SHOWN_FROM_S = 0.1  # a shorter duration is not shown
ELAPSED_FROM_S = 1.0
TITLE_ROWS = 10

Status = Literal["arriving", "running", "done", "failed", "aborted"]


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
    """A tool call: its title, its output as it arrives, its result."""

    def __init__(
        self, name: str, arguments: Mapping[str, Any] | None = None, renderers: Renderers | None = None
    ) -> None:
        self.name = name
        self.status: Status = "arriving"
        self._arguments = arguments
        self._arriving = ""  # JSON text of the arguments so far
        self._outcome: Outcome | None = None
        self._earlier = 0  # lines of the output that are not in it
        self._started: float | None = None
        self._took: float | None = None
        self._version = 0
        self._drawings = renderers.tool(name) if renderers else {}

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
        """Output so far. Only its last lines are kept."""
        text = text_of(outcome.content)
        earlier, shown = last_lines(text, RING_LINES)
        self._earlier = _not_in_result(outcome.details) + (earlier.count("\n") + 1 if earlier else 0)
        self._outcome = replace(outcome, content=[Text("\n".join(shown)), *images_of(outcome.content)])
        self._version += 1

    def end(self, outcome: Outcome, *, is_error: bool, took: float | None = None) -> None:
        self.status = "failed" if is_error else "done"
        if is_error and text_of(outcome.content).rstrip().endswith(("Command aborted", "Operation aborted")):
            self.status = "aborted"
        self._outcome, self._took, self._earlier = outcome, took, _not_in_result(outcome.details)
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
        return self._version, self._elapsed(now), *(drawing.version for drawing in self._drawings.values())

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
        lines = title_lines(self.name, arguments, look.cwd)
        if (drawing := self._drawings.get("call")) and self._arguments is not None:
            lines = drawing.lines(self._arguments, 0, inside, self._options()) or lines
        if look.plain:
            return prefixed(lines, (Span(_WORDS.get(self.status, "")),), ())
        sign, style = _SIGNS[self.status]
        rows = [row for line in lines for row in wrap(line, inside.width)]
        return prefixed(head(rows, TITLE_ROWS, inside), (Span(f"{sign} ", style),), (Span("  "),))

    def _body(self, arguments: Mapping[str, Any], look: Look) -> list[Line]:
        outcome = self._outcome
        if outcome is None:
            return self._content(arguments, look)
        if drawing := self._drawings.get("result"):
            drawn = drawing.lines(to_builtins(outcome), self._version, look, self._options())
            if drawn is not None:
                return drawn
        text, pictures = text_of(outcome.content), images_of(outcome.content)
        images: list[Line] = [clip((Span(image_text(image), "muted"),), look) for image in pictures]
        if self.status == "failed":
            return [*tail_rows(text, OTHER_ROWS, look, "error"), *images]
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
        return head_of_code(content, str(arguments.get("path", "")), PREVIEW_ROWS["write"], look)

    def _output(self, text: str, arguments: Mapping[str, Any], look: Look) -> list[Line]:
        note = _NOTE.search(text)
        if note:
            text = text[: note.start()]
        count = PREVIEW_ROWS.get(self.name, OTHER_ROWS)
        if self.name == "bash":
            rows = tail_rows(text, count, look, hidden=self._earlier)
        elif self.name == "read":
            rows = head_of_code(text, str(arguments.get("path", "")), count, look)
        else:
            rows = head_of_text(text, count, look)
            if self.name not in PREVIEW_ROWS and look.expanded and arguments:
                rows = [*text_lines(_pretty(arguments), look, "muted"), *rows]
        if note:
            rows += text_lines(f"[{note[1]}]", look, "warning")
        return rows


def _not_in_result(details: Any) -> int:
    """The number of lines that were left out at the beginning of a command's output."""
    cut = details.get("truncation") if isinstance(details, Mapping) else None
    if isinstance(cut, Mapping):
        total, kept = cut.get("totalLines"), cut.get("outputLines")
    else:
        total, kept = getattr(cut, "total_lines", 0), getattr(cut, "output_lines", 0)
    return max(total - kept, 0) if isinstance(total, int) and isinstance(kept, int) else 0


def _detail(details: Any, name: str) -> str:
    value = details.get(name) if isinstance(details, Mapping) else None
    return value if isinstance(value, str) else ""


def _pretty(arguments: Mapping[str, Any]) -> str:
    return "\n".join(
        f"{name}: {value if isinstance(value, str) else encode(value).decode('utf-8', 'replace')}"
        for name, value in arguments.items()
    )
