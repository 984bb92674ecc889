"""Untrusted text as spans without control characters.

Text of models, tools, files, titles and extensions passes one of these functions before it becomes a span. Escape
sequences and control characters are removed; characters that reorder text are spelled out. Of command output the
colours and attributes (SGR) are kept, as words of a style.
"""

from __future__ import annotations

import re

from tau.core.text.terminal_text import Cleaner, escape_for_display, strip_controls
from tau.screen.lines import Line, Span

TAB_COLUMNS = 4
MAX_PARAMETERS = 32  # of one SGR sequence

_BREAKS = re.compile("[\u2028\u2029]")
_LINE_END = re.compile("(?<!\r)\r+\n")


def one_line(text: str, limit: int = 2000) -> str:
    """A name, a path or a title on one line; what a terminal would interpret or hide is spelled out."""
    return escape_for_display(" ".join(text[:limit].split()), "")


def clean_text(text: str) -> str:
    """Text of several lines, without control characters and tabs."""
    return tidy(Cleaner().feed(text))


def tidy(text: str) -> str:
    """What a Cleaner returned, with tabs as spaces and without characters that reorder text."""
    if text.isascii():
        return text.expandtabs(TAB_COLUMNS) if "\t" in text else text
    return strip_controls(_BREAKS.sub(" ", text)).expandtabs(TAB_COLUMNS)


def output_lines(text: str, style: str = "") -> list[Line]:
    """Command output: a line per line, colours kept. Of a line that was overwritten (CR), the last state is shown."""
    if "\r" in text:
        text = "\n".join(_overwritten(line) for line in _LINE_END.sub("\n", text).split("\n"))
    if "\x1b" not in text and "\x9b" not in text:
        return [(Span(line, style),) if line else () for line in clean_text(text).split("\n")]
    return _coloured(text, style)


def _overwritten(line: str) -> str:
    return next((part for part in reversed(line.split("\r")) if part), "")


# An SGR sequence with its parameters. Other sequences are left to the Cleaner.
_SGR = re.compile(r"(?:\x1b\[|\x9b)([0-9;:]{0,120})m")


def _coloured(text: str, style: str) -> list[Line]:
    state = SgrState()
    lines: list[Line] = []
    for line in text.split("\n"):
        spans: list[Span] = []
        at = 0
        for found in _SGR.finditer(line):
            _add(spans, line[at : found.start()], state, style)
            state.apply(found[1])
            at = found.end()
        _add(spans, line[at:], state, style)
        lines.append(tuple(spans))
    return lines


def _add(spans: list[Span], text: str, state: SgrState, style: str) -> None:
    if cleaned := clean_text(text):
        words = state.style()
        spans.append(Span(cleaned, f"{style} {words}".strip() if not state.foreground else words))


_ATTRIBUTES = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse", 9: "strike"}
_ATTRIBUTES_OFF = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 27: ("inverse",), 29: ("strike",)}


class SgrState:
    """The colours and attributes that SGR sequences have set."""

    def __init__(self) -> None:
        self.foreground = ""
        self.background = ""
        self.attributes: list[str] = []

    def style(self) -> str:
        return " ".join(filter(None, (self.foreground, self.background, *self.attributes)))

    def apply(self, parameters: str) -> None:
        codes = [code for part in parameters.split(";")[:MAX_PARAMETERS] for code in _codes(part)]
        while codes:
            code = codes.pop(0)
            if code == 0:
                self.__init__()  # type: ignore[misc]
            elif code in _ATTRIBUTES and _ATTRIBUTES[code] not in self.attributes:
                self.attributes.append(_ATTRIBUTES[code])
            elif code in _ATTRIBUTES_OFF:
                self.attributes = [word for word in self.attributes if word not in _ATTRIBUTES_OFF[code]]
            elif code in (38, 48):
                self._set(code == 38, _extended(codes))
            elif code in (39, 49):
                self._set(code == 39, "")
            elif 30 <= code <= 37 or 90 <= code <= 97:
                self._set(True, str(code - 30 if code < 90 else code - 82))
            elif 40 <= code <= 47 or 100 <= code <= 107:
                self._set(False, str(code - 40 if code < 100 else code - 92))

    def _set(self, foreground: bool, colour: str | None) -> None:
        if colour is None:
            return
        if foreground:
            self.foreground = colour and f"fg={colour}"
        else:
            self.background = colour and f"bg={colour}"


def _codes(part: str) -> list[int]:
    """One parameter; with colons it has parts: `38:2::r:g:b` (the empty part names a colour space), `4:3`."""
    codes = [int(number[:3]) if number else 0 for number in part.split(":")]
    if codes[0] in (38, 48):
        return codes[:2] + codes[3:6] if len(codes) >= 6 and codes[1] == 2 else codes
    return [24] if codes[0] == 4 and codes[1:2] == [0] else codes[:1]


def _extended(codes: list[int]) -> str | None:
    """The colour after 38 or 48: `5;n` or `2;r;g;b`. Takes its codes, or all codes if they are not a colour."""
    kind = codes.pop(0) if codes else 0
    if kind == 5 and codes:
        return str(min(codes.pop(0), 255))
    if kind == 2 and len(codes) >= 3:
        red, green, blue = (min(codes.pop(0), 255) for _ in range(3))
        return f"#{red:02x}{green:02x}{blue:02x}"
    codes.clear()
    return None
