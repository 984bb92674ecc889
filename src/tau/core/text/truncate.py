"""Truncate text to a number of lines and bytes, from the head or from the tail.

Only whole lines are kept. From the head, a first line that is too long leaves nothing; from the tail, a last line
that is too long keeps its end.

Lines are counted in two ways, as pi's clients expect: `head` counts the empty piece after a last newline (a file of
3000 lines has 3001), `Tail` does not (`seq 1 5000` has 5000).
"""

from __future__ import annotations

import codecs

from tau.core.text.terminal_text import Cleaner
from tau.records.tools import Truncation

MAX_LINES = 2000
MAX_BYTES = 50 * 1024
TRUNCATION_NOTICE = "[The rest is cut off.]"


def format_size(count: int) -> str:
    """Format a number of bytes: 312B, 50.0KB, 1.5MB."""
    if count < 1024:
        return f"{count}B"
    unit, name = (1024, "KB") if count < 1024 * 1024 else (1024 * 1024, "MB")
    tenths = (count * 10 + unit // 2) // unit  # rounds half up, as in JavaScript
    return f"{tenths // 10}.{tenths % 10}{name}"


def byte_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def head(text: str, *, max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES) -> Truncation:
    """The first lines of `text` that fit."""
    lines = text.split("\n")
    total = byte_length(text)
    if len(lines) <= max_lines and total <= max_bytes:
        return _untruncated(text, len(lines), total, max_lines, max_bytes)

    shown: list[str] = []
    used = 0
    for line in lines[:max_lines]:
        cost = byte_length(line) + bool(shown)  # includes the newline before it
        if used + cost > max_bytes:
            break
        shown.append(line)
        used += cost

    return Truncation(
        content="\n".join(shown),
        truncated=True,
        truncated_by="lines" if len(shown) == max_lines else "bytes",
        total_lines=len(lines),
        total_bytes=total,
        output_lines=len(shown),
        output_bytes=used,
        last_line_partial=False,
        first_line_exceeds_limit=not shown and max_lines > 0,
        max_lines=max_lines,
        max_bytes=max_bytes,
    )


def truncate_text(text: str, *, max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES) -> str:
    """The beginning of `text` that fits, with a notice as last line if it is truncated.

    Unlike `head`, this cuts a line that is too long: for texts that are useless line by line.
    """
    if text.count("\n") < max_lines and byte_length(text) <= max_bytes:
        return text
    data = "\n".join(text.split("\n", max_lines - 1)[: max_lines - 1]).encode("utf-8", "surrogatepass")
    end = max_bytes - len(TRUNCATION_NOTICE) - 1
    while end < len(data) and data[end] & 0xC0 == 0x80:  # do not split a character
        end -= 1
    return f"{data[:end].decode('utf-8', 'surrogatepass')}\n{TRUNCATION_NOTICE}"


def tail(text: str, *, max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES) -> Truncation:
    """The last lines of `text` that fit."""
    window = Tail(max_lines=max_lines, max_bytes=max_bytes)
    window.feed(text.encode("utf-8", "replace"))
    return window.truncation()


class Tail:
    """The end of a stream of any length, in constant memory.

    Takes bytes in chunks of any size and decodes them as UTF-8; invalid bytes become U+FFFD, and all numbers refer to
    the decoded text. With a `cleaner` they refer to the cleaned text.
    """

    def __init__(
        self, *, max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES, cleaner: Cleaner | None = None
    ) -> None:
        self._max_lines = max_lines
        self._max_bytes = max_bytes
        self._cleaner = cleaner
        self._rest = b""  # the first bytes of an incomplete character
        self._kept = bytearray()
        self._bytes = 0
        self._newlines = 0
        self._closed = 0  # bytes of the last complete line
        self._open = 0  # bytes after the last newline

    def feed(self, data: bytes) -> None:
        if not self._rest and not self._cleaner and data.isascii():
            self._add(data)  # the fast path
        else:
            self._read(data, final=False)

    def end(self) -> None:
        """End of input: an incomplete character is invalid."""
        self._read(b"", final=True)
        if self._cleaner:
            self._add(self._cleaner.end().encode())

    @property
    def total_lines(self) -> int:
        return self._newlines + (self._open > 0)

    @property
    def last_line_bytes(self) -> int:
        """The full length of the last line, however little of it is kept."""
        return self._open or self._closed

    @property
    def truncated(self) -> bool:
        return self._bytes > self._max_bytes or self.total_lines > self._max_lines

    def truncation(self) -> Truncation:
        """The current result."""
        if not self.truncated:
            return _untruncated(self._kept.decode(), self.total_lines, self._bytes, self._max_lines, self._max_bytes)

        text = bytes(self._kept).removesuffix(b"\n")
        lines = text[-self._max_bytes - 1 :].split(b"\n")
        if len(text) > self._max_bytes:
            # The first piece is not a whole line: it is truncated, or only the newline before the first one.
            del lines[0]
        partial = not lines
        if partial:
            lines = [_from_character(text[-self._max_bytes :])]
        lines = lines[-self._max_lines :]
        content = b"\n".join(lines)

        return Truncation(
            content=content.decode(),
            truncated=True,
            truncated_by="lines" if len(lines) == self._max_lines < self.total_lines else "bytes",
            total_lines=self.total_lines,
            total_bytes=self._bytes,
            output_lines=len(lines),
            output_bytes=len(content),
            last_line_partial=partial,
            first_line_exceeds_limit=False,
            max_lines=self._max_lines,
            max_bytes=self._max_bytes,
        )

    def _read(self, data: bytes, *, final: bool) -> None:
        data = self._rest + data
        text, used = codecs.utf_8_decode(data, "replace", final)
        self._rest = data[used:]
        if self._cleaner:
            text = self._cleaner.feed(text)
        self._add(text.encode())

    def _add(self, data: bytes) -> None:
        self._bytes += len(data)
        self._newlines += data.count(b"\n")
        last = data.rfind(b"\n")
        if last < 0:
            self._open += len(data)
        else:
            before = data.rfind(b"\n", 0, last)
            self._closed = self._open + last if before < 0 else last - before - 1
            self._open = len(data) - last - 1

        # The limit, one byte before it, and a trailing newline.
        keep = self._max_bytes + 2
        self._kept += data[-keep:]
        if len(self._kept) > 2 * keep:
            del self._kept[:-keep]


def _untruncated(text: str, lines: int, count: int, max_lines: int, max_bytes: int) -> Truncation:
    return Truncation(
        content=text,
        truncated=False,
        truncated_by=None,
        total_lines=lines,
        total_bytes=count,
        output_lines=lines,
        output_bytes=count,
        last_line_partial=False,
        first_line_exceeds_limit=False,
        max_lines=max_lines,
        max_bytes=max_bytes,
    )


def _from_character(data: bytes) -> bytes:
    """Remove the rest of a character whose first bytes were cut off."""
    start = 0
    while start < len(data) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]
