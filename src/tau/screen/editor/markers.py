"""Pasted texts and images that stand in the editor as one unit, such as `[paste #1 +123 lines]`.

In the buffer a marker is one code point, a lone high surrogate. Valid text contains none (`clean` replaces them), so a
marker cannot be confused with text, and cursor motion, deletion, undo and the kill ring treat it as one character
without knowing about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tau.records.base import Value

MAX_PASTE_LINES = 10  # a paste with more lines or characters becomes a marker
MAX_PASTE_CHARS = 1000

TIMES = "\u00d7"  # multiplication sign

FIRST, LAST = 0xD800, 0xDBFF
# They take long to compile, and are rarely needed.
MARKER = "[\ud800-\udbff]"
_UNSAFE = "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]"
_LINE_END = re.compile("\r\n?")


class Image(Value):
    """An image that is sent with the prompt. `source` is its path; empty for one from the clipboard."""

    data: bytes
    mime_type: str
    name: str = ""
    width: int = 0  # 0: unknown
    height: int = 0
    source: str = ""


class Marker(Value):
    label: str
    content: str | Image


def clean(text: str) -> str:
    """Make text safe for the buffer: LF line ends, no control characters but tabs, no lone surrogates."""
    if text.isprintable():
        return text
    if "\r" in text:
        text = _LINE_END.sub("\n", text)
    return re.sub(_UNSAFE, lambda found: "\ufffd" if found[0] >= "\ud800" else "", text)


def is_marker(character: str) -> bool:
    return len(character) == 1 and FIRST <= ord(character) <= LAST


class Markers:
    """The markers of one editor by code point. Pastes and images are numbered separately, each from 1."""

    def __init__(self) -> None:
        self._by_code: dict[str, Marker] = {}
        self._pastes = 0
        self._images = 0

    def add_paste(self, text: str) -> str:
        """Return the code point of a new marker, or the text itself if there are too many markers."""
        lines = text.count("\n") + 1
        size = f"+{lines} lines" if lines > MAX_PASTE_LINES else f"{len(text)} chars"
        code = self._add(Marker(f"[paste #{self._pastes + 1} {size}]", text))
        self._pastes += bool(code)
        return code or text

    def paste_again(self, text: str) -> str:
        """The marker of a paste with this content, or a new one."""
        same = (code for code, marker in self._by_code.items() if marker.content == text)
        return next(same, "") or self.add_paste(text)

    def add_image(self, image: Image) -> str:
        """Return the code point of a new marker; "" if there are too many markers."""
        size = f"{image.width}{TIMES}{image.height}" if image.width and image.height else ""
        name = re.sub(r"[\s\[\]]+", " ", clean(image.name)).strip()
        words = [word for word in (f"image #{self._images + 1}", name, size) if word]
        code = self._add(Marker(f"[{' '.join(words)}]", image))
        self._images += bool(code)
        return code

    def _add(self, marker: Marker) -> str:
        for number in range(len(self._by_code), LAST - FIRST + 1):
            if (code := chr(FIRST + number)) not in self._by_code:
                self._by_code[code] = marker
                return code
        return ""

    def codes(self, text: str) -> list[str]:
        return re.findall(MARKER, text)

    def label(self, code: str) -> str:
        return self._by_code[code].label

    def labels(self, text: str) -> str:
        """The text with every marker as its label."""
        return re.sub(MARKER, lambda found: self.label(found[0]), text)

    def expand(self, text: str) -> str:
        """The text with every paste in full; images stay labels."""
        return "".join(part for part, _ in self.parts(text))

    def parts(self, text: str) -> list[tuple[str, str | Image]]:
        """Split a text at its markers: (text in full, "") for typed text, (text in full, content) for a marker."""
        found: list[tuple[str, str | Image]] = []
        end = 0
        for match in re.finditer(MARKER, text):
            if match.start() > end:
                found.append((text[end : match.start()], ""))
            marker = self._by_code[match[0]]
            content = marker.content
            found.append((content if isinstance(content, str) else marker.label, content))
            end = match.end()
        if end < len(text):
            found.append((text[end:], ""))
        return found

    def images(self, text: str) -> list[Image]:
        contents = (self._by_code[code].content for code in re.findall(MARKER, text))
        return [content for content in contents if isinstance(content, Image)]

    def keep_only(self, texts: Iterable[str]) -> None:
        """Forget the markers that stand in none of these texts; without any, numbers start at 1 again."""
        used = {code for text in texts for code in re.findall(MARKER, text)}
        self._by_code = {code: marker for code, marker in self._by_code.items() if code in used}
        if not self._by_code:
            self._pastes = self._images = 0


def is_large(text: str) -> bool:
    """Whether pasted text becomes a marker."""
    return len(text) > MAX_PASTE_CHARS or text.count("\n") + 1 > MAX_PASTE_LINES
