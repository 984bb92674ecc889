"""Cards of prompts, summaries and messages of extensions."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

from tau.records.messages import Image, Text
from tau.screen.cards.notices import StaticCard
from tau.screen.cards.text import clip, filled, head, indented, text_lines
from tau.screen.lines import Line, Span
from tau.screen.look import Look
from tau.screen.markdown import prefixed
from tau.screen.renderers import Drawing
from tau.screen.safe_text import one_line
from tau.screen.stream import markdown_rows

PROMPT_LINES = 40  # of a prompt, unless it is expanded

_SKILL = re.compile(r'<skill name="([^"\n]{1,200})"[^>\n]{0,1000}>\n(.*?)\n</skill>(?:\n\n)?', re.DOTALL)
_FILE = re.compile(r'<file name="([^"\n]{1,4096})">\n?(.*?)\n?</file>\n?', re.DOTALL)
_USER = "userMessageText"
_USER_BACKGROUND = "bg:userMessageBg"


class UserCard(StaticCard):
    def __init__(self, content: str | list[Text | Image]) -> None:
        self._text, self._images = text_of(content), images_of(content)

    def rows(self, look: Look, now: float) -> list[Line]:
        rows: list[Line] = []
        text = self._text
        while wrapper := _SKILL.match(text) or _FILE.match(text):
            kind = "skill" if wrapper.re is _SKILL else "file"
            rows.append((Span(f"[{kind} {one_line(wrapper[1])}]", f"{_USER} dim"),))
            text = text[wrapper.end() :]
        inside = look.narrower(2)
        if text.strip():
            rows += head(text_lines(text.strip("\n"), inside, _USER), PROMPT_LINES, inside)
        rows += [(Span(image_text(image), f"{_USER} dim"),) for image in self._images]
        rows = [clip(row, inside) for row in rows]
        rows = prefixed(rows, (Span("> ", _USER),), (Span("  ", _USER),))
        return rows if look.plain else [filled(row, look.width, _USER_BACKGROUND) for row in rows]


class SummaryCard(StaticCard):
    """A title, and the text below it when it is expanded."""

    def __init__(self, title: str, text: str) -> None:
        self._title, self._text = title, text

    def rows(self, look: Look, now: float) -> list[Line]:
        hint = "" if look.expanded or look.plain or not self._text else f", {look.expand_key}"
        title = clip((Span(f"[{one_line(self._title)}{hint}]", "customMessageLabel bold"),), look)
        if not look.expanded or not self._text:
            return [title]
        return [title, *indented(markdown_rows(self._text, look.narrower(2), "customMessageText"), look)]


class CustomCard:
    """A message of an extension. `data` is what its renderer gets."""

    def __init__(
        self, kind: str, content: str | list[Text | Image], drawing: Drawing | None = None, data: Any = None
    ) -> None:
        self._kind, self._content = kind, content
        self._drawing, self._data = drawing, data

    def state(self, now: float) -> Hashable:
        return self._drawing.version if self._drawing else 0

    def rows(self, look: Look, now: float) -> list[Line]:
        if self._drawing and (drawn := self._drawing.lines(self._data, 0, look, {})) is not None:
            return drawn
        title = clip((Span(f"[{one_line(self._kind)}]", "customMessageLabel bold"),), look)
        rows = markdown_rows(text_of(self._content), look, "customMessageText")
        rows += [clip((Span(image_text(image), "dim"),), look) for image in images_of(self._content)]
        return [title, *rows]


def text_of(content: str | list[Text | Image]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content if isinstance(block, Text))


def images_of(content: str | list[Text | Image]) -> list[Image]:
    return [] if isinstance(content, str) else [block for block in content if isinstance(block, Image)]


def image_text(image: Image) -> str:
    size = len(image.data) * 3 // 4
    amount = f"{size} bytes" if size < 1024 else f"{size / 1024:.0f} kB"
    return f"[image {one_line(image.mime_type, 100)} {amount}]"
