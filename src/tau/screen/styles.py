"""Styles -> SGR: a theme at a depth of colour.

The only place that writes text of spans: control characters and characters that reorder text are dropped here, whatever
the cards before have let through.
"""

from __future__ import annotations

import re

from tau.screen.colors import Color, Depth, color_parameters
from tau.screen.lines import Line
from tau.screen.themes import DARK, Theme

_ATTRIBUTES = {"bold": "1", "dim": "2", "italic": "3", "underline": "4", "inverse": "7", "strike": "9"}
_HEX = re.compile(r"#[0-9a-fA-F]{6}")
# Controls (C0, DEL, C1), line and paragraph separators, embeddings, overrides and isolates, surrogates.
# It takes long to compile, and is rarely needed.
_UNSAFE = "[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
_LINK_TARGET = re.compile(r"[!-~]{1,2000}")
RESET = "\x1b[m"
END_LINK = "\x1b]8;;\x1b\\"


def safe_text(text: str) -> str:
    return text if text.isprintable() else re.sub(_UNSAFE, "", text)


class Palette:
    def __init__(self, theme: Theme = DARK, depth: Depth = "truecolor", *, links: bool = True) -> None:
        self.theme = theme
        self.depth: Depth = depth
        self.links = links
        self._parameters: dict[str, str] = {"": ""}

    def sgr(self, style: str) -> str:
        """The sequence that switches from the default style to this one; "" for the default style."""
        parameters = self._of(style)
        return f"\x1b[{parameters}m" if parameters else ""

    def render(self, line: Line) -> str:
        """The text with SGR and hyperlinks. It begins and ends in the default style."""
        parts: list[str] = []
        style = ""  # parameters that are active
        target = ""
        for span in line:
            text = safe_text(span.text)
            if not text:
                continue
            if span.link != target:
                target = self._link(span.link, target, parts)
            wanted = self._of(span.style)
            if wanted != style:
                parts.append(_switch(style, wanted))
                style = wanted
            parts.append(text)
        if style:
            parts.append(RESET)
        if target:
            parts.append(END_LINK)
        return "".join(parts)

    def _link(self, link: str, before: str, parts: list[str]) -> str:
        target = link if self.links and _LINK_TARGET.fullmatch(link) else ""
        if target:
            parts.append(f"\x1b]8;;{target}\x1b\\")
        elif before:
            parts.append(END_LINK)
        return target

    def _of(self, style: str) -> str:
        parameters = self._parameters.get(style)
        if parameters is None:
            parameters = ";".join(filter(None, map(self._word, style.split())))
            self._parameters[style] = parameters
        return parameters

    def _word(self, word: str) -> str:
        if word in _ATTRIBUTES:
            return _ATTRIBUTES[word]
        if word.startswith(("fg=", "bg=")):
            color = _output_color(word[3:])
            return "" if color is None else color_parameters(color, self.depth, background=word[0] == "b")
        background = word.startswith("bg:")
        role = word[3:] if background else word
        return color_parameters(self.theme.colors.get(role, ""), self.depth, background=background)


def _output_color(text: str) -> Color | None:
    if text.isascii() and text.isdigit() and len(text) < 4 and int(text) < 256:
        return int(text)
    return text if _HEX.fullmatch(text) else None


def _switch(style: str, wanted: str) -> str:
    if not wanted:
        return RESET
    return f"\x1b[0;{wanted}m" if style else f"\x1b[{wanted}m"
