"""Framing: one record per line, and only LF ends a line.

U+2028, U+0085 and a CR in the middle are content, so str.splitlines and friends
must never see this stream. Each byte is searched once and copied once, however
the portions fall. A line over the limit is refused while it streams, so that a
peer that never sends an LF cannot fill the memory.
"""

from __future__ import annotations

from tau.records.base import Value

LIMIT = 32 * 1024 * 1024
MANY = 4096


class TooLong(Value):
    """Stands where a line of more than `size_limit` bytes was refused."""

    size_limit: int


class LineDecoder:
    """Portions of bytes in, whole lines out, without LF and without one CR before it.

    The CR counts towards the limit: while it streams nobody can know that it is the last byte.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._blocks: list[bytes] = []  # the parts before those, joined: many small ones would take much memory
        self._size = 0
        self._refused = False

    def feed(self, data: bytes) -> list[bytes | TooLong]:
        """The lines that `data` brings to their end, and a TooLong where one passes the limit."""
        lines: list[bytes | TooLong] = []
        *ends, rest = data.split(b"\n")
        for piece in ends:
            self._add(piece, lines)
            self._finish(lines)
        self._add(rest, lines)
        return lines

    def end(self) -> list[bytes | TooLong]:
        """A last line that came without LF, if there is one."""
        lines: list[bytes | TooLong] = []
        if self._size or self._refused:
            self._finish(lines)
        return lines

    def _add(self, piece: bytes, lines: list[bytes | TooLong]) -> None:
        if self._refused or not piece:
            return
        self._size += len(piece)
        if self._size > self._limit:
            self._parts.clear()
            self._blocks.clear()
            self._size = 0
            self._refused = True
            lines.append(TooLong(self._limit))
        else:
            self._parts.append(piece)
            if len(self._parts) == MANY:
                self._blocks.append(b"".join(self._parts))
                self._parts.clear()

    def _finish(self, lines: list[bytes | TooLong]) -> None:
        if self._refused:  # the TooLong was given when the limit was passed
            self._refused = False
            return
        if self._blocks:
            self._parts[:0] = self._blocks
            self._blocks.clear()
        lines.append(b"".join(self._parts).removesuffix(b"\r"))
        self._parts.clear()
        self._size = 0
