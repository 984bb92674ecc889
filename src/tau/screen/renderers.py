"""Rows that extensions draw: their renderers run in another process, so a card asks for them and goes on.

A card has a Drawing for each part that an extension draws. Until its lines have come, and where they do not come, the
card shows its own form. The front end takes the requests after each frame and answers them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from tau.records.base import Value
from tau.screen.lines import Line
from tau.screen.look import Look

Part = Literal["call", "result", "message"]


class DrawRequest(Value):
    """`name` is that of the tool or the type of the message; `options` are for the renderer, as on the wire."""

    part: Part
    name: str
    data: Any
    width: int
    options: dict[str, bool]
    drawing: Drawing

    def answer(self, lines: Sequence[Line] | None) -> None:
        """None: the card shows its own form."""
        self.drawing.set(self, lines)


class Drawing:
    """The lines of one part of a card."""

    def __init__(self, part: Part, name: str, requests: list[DrawRequest]) -> None:
        self.version = 0  # changes when lines have come
        self._part: Part = part
        self._name = name
        self._requests = requests
        self._wanted: tuple[Any, ...] = ()
        self._lines: list[Line] | None = None

    def lines(self, data: Any, version: int, look: Look, options: dict[str, bool]) -> list[Line] | None:
        """The lines for this width, or None. `version` tells whether `data` has changed."""
        wanted = version, look.width, look.expanded, tuple(options.items())
        if wanted != self._wanted:
            self._wanted = wanted
            shown = {"expanded": look.expanded, **options}
            self._requests.append(DrawRequest(self._part, self._name, data, look.width, shown, self))
        return None if self._lines is None else list(self._lines)

    def set(self, request: DrawRequest, lines: Sequence[Line] | None) -> None:
        if request.width == self._wanted[1] and request.options["expanded"] == self._wanted[2]:
            self._lines = None if lines is None else list(lines)
            self.version += 1


class Renderers:
    """Which tools and messages extensions draw, and what they were asked to draw."""

    def __init__(
        self,
        renders_tool: Callable[[str], bool] = lambda name: False,
        renders_message: Callable[[str], bool] = lambda kind: False,
    ) -> None:
        self._renders_tool = renders_tool
        self._renders_message = renders_message
        self._requests: list[DrawRequest] = []

    def tool(self, name: str) -> dict[Part, Drawing]:
        """The parts of a tool's card that an extension draws."""
        parts: tuple[Part, ...] = ("call", "result") if self._renders_tool(name) else ()
        return {part: Drawing(part, name, self._requests) for part in parts}

    def message(self, kind: str) -> Drawing | None:
        return Drawing("message", kind, self._requests) if self._renders_message(kind) else None

    def take_requests(self) -> list[DrawRequest]:
        taken = self._requests[:]
        self._requests.clear()
        return taken
