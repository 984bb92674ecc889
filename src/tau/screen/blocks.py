"""Splits Markdown into pieces that can be shown one after the other, line by line, while it arrives.

A piece is a paragraph, a heading, a quote, one item of a list, lines of fenced code, or a table. It never changes
once the next one has begun, and it is rendered alone. Therefore what an answer looks like does not depend on how it
was cut into chunks, and the cost of a frame is that of the last piece.

Every decision depends on complete lines only. A piece of more than MAX_PIECE characters is cut at the last line end
before that (a line without one at a space): emphasis, lists and quotes end there. A link reference is not resolved.
The columns of a table that is taller than the screen keep their widths (`fix_table`).
"""

from __future__ import annotations

import re
from copy import copy
from typing import Literal, NamedTuple

from tau.screen.lines import Line

MAX_PIECE = 8_000
TABLE_ROWS = 40  # after these, the widths of a table's columns are fixed, and its rows are finished one by one

Kind = Literal["text", "item", "code", "table"]


class Piece(NamedTuple):
    """Markdown that is rendered alone.

    `source` of code is the code without its fence, each line with a line feed; of a table its rows. `gap`: an empty
    row stands before it.
    """

    kind: Kind
    source: str
    gap: bool = False
    number: int | None = None  # of the list item
    indent: int = 0  # columns: the piece continues an item of a list
    info: str = ""  # of code: what follows the fence, the language first
    head: str = ""  # of a table: its first two lines
    sample: str = ""  # of a table: the rows that the widths of its columns depend on, if they are not in `source`
    first: bool = True  # the first piece of its code or table; opens it
    last: bool = True  # closes its code
    lines: tuple[Line, ...] = ()  # of code, highlighted


_FENCE = re.compile(r"( {0,3})(`{3,}(?=[^`]*$)|~{3,})[ ]*(.*)$")
_MARKER = re.compile(r"( {0,3})(?:([-+*])|(\d{1,9})([.)]))( +|$)")
_HEADING = re.compile(r" {0,3}#{1,6}(?: |$)")
_RULE = re.compile(r" {0,3}(?:(?:\* *){3,}|(?:- *){3,}|(?:_ *){3,})$")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+) *$")
_QUOTE = re.compile(r" {0,3}>")
_DELIMITER = re.compile(r":?-+:?")


class BlockSplitter:
    """Receives lines; `pieces` are those that are complete."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self._kind: Kind | Literal[""] = ""
        self._lines: list[str] = []  # of the open piece
        self._size = 0
        self._blank = False  # an empty line came after the last piece or inside the open item
        self._open = Piece("text", "")  # the properties of the open piece
        self._fence = _NO_FENCE  # of the open code, or inside the open item
        self._list = ("", 0)  # kind and next number of the list that the last item belongs to

    def feed(self, line: str) -> None:
        """Add a complete line, without its line feed."""
        self._feed(self.cut(line))

    def cut(self, line: str) -> str:
        """Add the beginning of a line that is too long; return the rest."""
        while len(line) > MAX_PIECE:
            end = line.rfind(" ", MAX_PIECE // 2, MAX_PIECE) + 1 or MAX_PIECE
            self._feed(line[:end])
            if self._kind != "code":
                self._flush(keep=True)
            line = line[end:]
        return line

    def preview(self, partial: str) -> tuple[list[Piece], Piece | None]:
        """The pieces if `partial`, the unfinished last line, ended here: the complete ones and the open one."""
        clone = copy(self)
        clone.pieces, clone._lines = [], list(self._lines)
        if partial:
            clone.feed(partial)
        return clone.pieces, clone._opened()

    def finish(self) -> None:
        """The text is complete."""
        self._flush()
        self._fence = _NO_FENCE

    @property
    def in_code(self) -> bool:
        return self._kind == "code"

    @property
    def in_table(self) -> bool:
        return self._kind == "table"

    @property
    def fence(self) -> str:
        return self._fence.marker

    def _opened(self) -> Piece | None:
        if self._kind == "code":
            return self._open._replace(source=self._code())
        source = "\n".join(self._lines)
        is_table_head = self._kind == "table" and self._open.first
        return self._open._replace(source=source) if self._lines or is_table_head else None

    def take_code(self) -> None:
        """Finish the lines of open code, without closing it."""
        if self._kind == "code" and self._lines:
            self.pieces.append(self._open._replace(source=self._code()))
            self._open = self._open._replace(gap=False, first=False)
            self._lines, self._size = [], 0

    def fix_table(self) -> None:
        """Finish the rows of an open table: the widths of its columns are fixed from here on."""
        if self._kind == "table" and self._open.first and self._lines:
            self._flush(keep=True)

    def _feed(self, line: str) -> None:
        if self._kind == "code":
            self._feed_code(line)
        elif not line or line.isspace():
            self._feed_blank()
        elif self._kind == "item" and self._continues_item(line):
            self._append(line)
        else:
            self._feed_block(line)

    def _feed_code(self, line: str) -> None:
        if not self._fence.closes(line):
            self._append(_dedent(line, self._fence.indent))
            return
        self.pieces.append(self._open._replace(source=self._code(), last=True))
        self._close()

    def _code(self) -> str:
        return "".join([f"{line}\n" for line in self._lines])

    def _feed_blank(self) -> None:
        if self._kind == "item":
            self._append("")
        else:
            self._flush()
        self._blank = True

    def _continues_item(self, line: str) -> bool:
        content = self._open.indent or self._content_column
        indent = len(line) - len(line.lstrip(" "))
        if indent >= content:
            self._fence = self._fence.after(line[content:])
            return True
        # A paragraph goes on without indentation, unless a block begins.
        return not self._blank and not self._fence.marker and not _begins_block(line)

    @property
    def _content_column(self) -> int:
        marker = _MARKER.match(self._lines[0]) if self._lines else None
        if not marker:
            return 2
        spaces = len(marker[5])
        return marker.end() - (spaces - 1 if spaces > 4 else 0) + (not spaces)

    def _feed_block(self, line: str) -> None:
        if self._kind == "item":
            self._flush()
        if found := _FENCE.match(line):
            self._begin("code", info=found[3].strip(), last=False)
            self._fence = _Fence(found[2], len(found[1]))
        elif self._kind == "table" and not _begins_block(line):
            self._append(line)
        elif self._kind == "text" and _UNDERLINE.match(line) and self._is_paragraph():
            self._append(line)
            self._flush()
        elif _RULE.match(line) or _HEADING.match(line):
            self._begin("text")
            self._append(line)
            self._flush()
        elif (marker := _MARKER.match(line)) and self._may_begin_item(marker, line):
            self._begin_item(marker)
            self._append(line)
        elif self._is_table_head(line):
            self._kind = "table"
            self._open = self._open._replace(kind="table", head=f"{self._lines[0]}\n{line}")
            self._lines, self._size = [], 0
        else:
            self._feed_text(line)

    def _feed_text(self, line: str) -> None:
        opened = self._lines[0] if self._kind == "text" and self._lines else None
        indented = line.startswith("    ")
        if (
            opened is None
            or (_QUOTE.match(line) and not _QUOTE.match(opened))
            or (opened.startswith("    ") and not indented)  # the end of indented code
        ):
            self._begin("text")
        self._append(line)

    def _is_paragraph(self) -> bool:
        return bool(self._lines) and not self._lines[0].startswith("    ") and not _QUOTE.match(self._lines[0])

    def _is_table_head(self, line: str) -> bool:
        return (
            self._kind == "text"
            and len(self._lines) == 1
            and "|" in self._lines[0]
            and "|" in line
            and _is_delimiter_row(line)
            and _cell_count(self._lines[0]) == _cell_count(line)
        )

    def _may_begin_item(self, marker: re.Match[str], line: str) -> bool:
        """A list interrupts a paragraph only if its first item is not empty and, if numbered, has the number 1."""
        if self._kind != "text":
            return True
        return marker.end() < len(line) and (marker[2] is not None or marker[3] == "1")

    def _begin_item(self, marker: re.Match[str]) -> None:
        kind = marker[2] or marker[4]
        same_list, expected = self._list
        number = None if marker[2] else expected if same_list == kind else int(marker[3])
        self._begin("item", number=number)
        self._list = (kind, 0 if number is None else number + 1)

    def _begin(self, kind: Kind, *, number: int | None = None, info: str = "", last: bool = True) -> None:
        self._flush()
        if kind != "item":
            self._list = ("", 0)
        self._kind = kind
        self._open = Piece(kind, "", self._blank, number, info=info, last=last)
        self._blank = False
        self._fence = _NO_FENCE

    def _append(self, line: str) -> None:
        if self._size + len(line) >= MAX_PIECE and self._lines:
            self._flush(keep=True)
        self._blank = False
        if self._open.indent and self._kind == "item":
            line = _dedent(line, self._open.indent)
        self._lines.append(line)
        self._size += len(line) + 1
        if self._kind == "table" and len(self._lines) >= (TABLE_ROWS if self._open.first else 1):
            self._flush(keep=True)

    def _flush(self, *, keep: bool = False) -> None:
        """Finish the open piece. With `keep`, what follows continues it."""
        opened = self._opened()
        if opened is not None:
            source = opened.source if opened.kind == "code" else opened.source.rstrip("\n")
            self.pieces.append(opened._replace(source=source, last=not keep))
        if not keep:
            self._close()
            return
        column = (self._open.indent or self._content_column) if self._kind == "item" else 0
        sample = opened.source if opened and self._kind == "table" and opened.first else self._open.sample
        self._open = self._open._replace(gap=False, first=False, number=None, indent=column, sample=sample)
        self._lines, self._size = [], 0
        if self._kind == "item" and self._fence.marker:
            self._lines.append(self._fence.marker)

    def _close(self) -> None:
        self._kind, self._lines, self._size = "", [], 0
        self._fence = _NO_FENCE


class _Fence(NamedTuple):
    marker: str
    indent: int = 0

    def closes(self, line: str) -> bool:
        text = line.strip(" ")
        return (
            len(text) >= len(self.marker)
            and text == self.marker[0] * len(text)
            and len(line) - len(line.lstrip(" ")) < 4 + self.indent
        )

    def after(self, line: str) -> _Fence:
        """The state after a line inside an item of a list."""
        if self.marker:
            return _NO_FENCE if self.closes(line) else self
        found = _FENCE.match(line)
        return _Fence(found[2], len(found[1])) if found else self


_NO_FENCE = _Fence("")


def _begins_block(line: str) -> bool:
    return bool(
        _FENCE.match(line) or _HEADING.match(line) or _RULE.match(line) or _QUOTE.match(line) or _MARKER.match(line)
    )


def _is_delimiter_row(line: str) -> bool:
    """The line below the head of a table: `|---|:-:|`."""
    cells = line.strip(" ").removeprefix("|").removesuffix("|").split("|")
    return not line.startswith("    ") and all(_DELIMITER.fullmatch(cell.strip(" ")) for cell in cells)


def _cell_count(line: str) -> int:
    inside = line.strip().removeprefix("|")
    if inside.endswith("|") and not inside.endswith("\\|"):
        inside = inside[:-1]
    return len(re.findall(r"(?<!\\)\|", inside)) + 1


def _dedent(line: str, columns: int) -> str:
    return line[min(columns, len(line) - len(line.lstrip(" "))) :] if columns else line
