"""Line framing: one record per line, and only LF ends a line.

U+2028, U+0085 and a CR inside a line are content, so str.splitlines must never be used on this stream. Each byte is
searched once and copied once, whatever the chunk sizes. A line over the limit is rejected while it streams, so that a
peer that never sends an LF cannot exhaust memory.
"""

from __future__ import annotations

from typing import Any

from tau.records.base import Value

MAX_LINE_BYTES = 32 * 1024 * 1024
JOIN_AFTER = 4096
LF, CR = 0x0A, 0x0D


class LineTooLong(Value):
    """Takes the place of a line of more than `size_limit` bytes."""

    size_limit: int


class LineDecoder:
    """Bytes in chunks of any size in, complete lines out, without LF and without one CR before it.

    The CR counts towards the limit: while the line streams, it is not known to be the last byte.
    """

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._blocks: list[bytes] = []  # earlier parts, joined: many small objects would take much memory
        self._size = 0
        self._discarding = False

    def feed(self, data: bytes) -> list[bytes | LineTooLong]:
        """The lines that `data` completes, and a LineTooLong where a line exceeds the limit."""
        ends: list[Any] = data.split(b"\n")
        rest = ends.pop()
        if not rest and not self._size and not self._discarding and len(data) <= self._limit:  # as usual: whole lines
            return ends if CR not in data else [line.removesuffix(b"\r") for line in ends]
        lines: list[bytes | LineTooLong] = []
        for chunk in ends:
            self._add(chunk, lines)
            self._finish(lines)
        self._add(rest, lines)
        return lines

    def end(self) -> list[bytes | LineTooLong]:
        """The last line if it has no LF."""
        lines: list[bytes | LineTooLong] = []
        if self._size or self._discarding:
            self._finish(lines)
        return lines

    def _add(self, chunk: bytes, lines: list[bytes | LineTooLong]) -> None:
        if self._discarding or not chunk:
            return
        self._size += len(chunk)
        if self._size > self._limit:
            self._parts.clear()
            self._blocks.clear()
            self._size = 0
            self._discarding = True
            lines.append(LineTooLong(self._limit))
        else:
            self._parts.append(chunk)
            if len(self._parts) == JOIN_AFTER:
                self._blocks.append(b"".join(self._parts))
                self._parts.clear()

    def _finish(self, lines: list[bytes | LineTooLong]) -> None:
        if self._discarding:  # LineTooLong was returned when the limit was exceeded
            self._discarding = False
            return
        if self._blocks:
            self._parts[:0] = self._blocks
            self._blocks.clear()
        lines.append(b"".join(self._parts).removesuffix(b"\r"))
        self._parts.clear()
        self._size = 0
