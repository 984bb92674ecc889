"""An answer that arrives in pieces: finished blocks of Markdown, and an unfinished one at the end."""

from __future__ import annotations

import re
from functools import lru_cache

from tau.core.text.markup import ListBlock, Table, parse_markdown
from tau.core.text.terminal_text import Cleaner
from tau.screen.blocks import BlockSplitter, Piece
from tau.screen.cells import clip_line
from tau.screen.code import CodeStream
from tau.screen.lines import Line, Span
from tau.screen.look import Look, wrap
from tau.screen.markdown import block_lines, inline_lines
from tau.screen.safe_text import tidy
from tau.screen.tables import table_lines, table_widths

MAX_OPEN_MARKS = 6  # of emphasis that is not closed yet
MAX_HELD = 200  # characters of an unfinished link that are not shown yet


class MarkdownStream:
    """Receives chunks of text of any size; `take` returns the pieces that are complete since the last call."""

    def __init__(self) -> None:
        self._splitter = BlockSplitter()
        self._cleaner = Cleaner()
        self._waiting: list[str] = []
        self._partial = ""  # the unfinished last line
        self._code = CodeStream()
        self.version = 0

    def feed(self, chunk: str) -> None:
        self._waiting.append(chunk)
        self.version += 1

    def finish(self) -> None:
        """The text is complete. `take` returns all that is left."""
        self._read()
        self._cleaner.end()
        if self._partial:
            self._splitter.feed(self._partial)
            self._partial = ""
        self._splitter.finish()
        self.version += 1

    def fix_table(self) -> None:
        """The beginning of an unfinished table has left the screen."""
        self._splitter.fix_table()

    def take(self) -> list[Piece]:
        self._read()
        pieces, self._splitter.pieces = self._splitter.pieces, []
        return [self._highlighted(piece) if piece.kind == "code" else piece for piece in pieces]

    def _highlighted(self, piece: Piece) -> Piece:
        return piece._replace(lines=self._code.lines(piece.source, piece.info, first=piece.first))

    def _read(self) -> None:
        if not self._waiting:
            return
        text = self._partial + self._cleaner.feed("".join(self._waiting))
        self._waiting.clear()
        *lines, partial = text.split("\n")
        for line in lines:
            self._splitter.feed(tidy(line))
        self._partial = self._splitter.cut(tidy(partial))
        self._splitter.take_code()

    def tail(self, look: Look, style: str = "") -> list[Line]:
        """The rows of the unfinished end."""
        partial = self._partial
        if self._splitter.in_code:
            shown = "" if _may_close(partial, self._splitter.fence) else partial
        else:  # a row of a table is shown when it is complete: its width decides about the columns
            shown = "" if self._splitter.in_table or _AMBIGUOUS.match(partial) else partial
        complete, opened = self._splitter.preview(shown)
        rows = [row for piece in complete for row in piece_rows(piece, look, style)]
        if opened is None or (opened.kind == "text" and _may_be_table(opened.source)):
            return rows
        if opened.kind != "code":
            opened = opened._replace(source=completed(opened.source))
        elif opened.source:  # complete lines of code are not in the tail
            line = self._code.preview(opened.source[:-1], opened.info, first=opened.first)
            opened = opened._replace(lines=(line,))
        return rows + piece_rows(opened, look, style)


def _may_close(line: str, fence: str) -> bool:
    """The line may become the end of code."""
    text = line.strip(" ")
    return bool(text) and text == fence[:1] * len(text)


def _may_be_table(source: str) -> bool:
    """The first line of a table is shown only when the line below it tells that it is one."""
    first, _, second = source.partition("\n")
    return first.lstrip().startswith("|") and (not second or set(second) <= set("|:- ")) and "\n" not in second


# The beginning of a line that does not tell yet what the line is: a list, a heading, a rule, code, a quote, a table.
_AMBIGUOUS = re.compile(
    r" {0,12}(?:[-+*](?:[-+* ]*)|#{1,6} *|\d{1,9}[.)]? *|=+|`{1,2}|~{1,2}|_+|(?:`{3}|~{3})[^`]*| +)$"
)


def piece_rows(piece: Piece, look: Look, style: str = "") -> list[Line]:
    """The rows of a piece; the empty row before it included."""
    if piece.indent:
        look = look.narrower(piece.indent)
    if piece.kind == "code":
        rows = _code_rows(piece, look)
    elif piece.kind == "table":
        rows = _table_rows(piece, look, style)
    else:
        blocks = parse_markdown(piece.source)
        if piece.number is not None and blocks and isinstance(blocks[0], ListBlock):
            blocks = (blocks[0]._replace(start=piece.number), *blocks[1:])
        rows = block_lines(blocks, look, style)
    if piece.indent:
        pad = Span(" " * piece.indent)
        rows = [(pad, *row) if row else row for row in rows]
    return [(), *rows] if piece.gap and rows else rows


def _code_rows(piece: Piece, look: Look) -> list[Line]:
    rows = [row for line in piece.lines for row in wrap(line, look.width)]
    if look.plain:
        return rows
    if piece.first:
        rows.insert(0, clip_line((Span(f"```{piece.info}", "mdCodeBlockBorder"),), look.width))
    if piece.last:
        rows.append((Span("```", "mdCodeBlockBorder"),))
    return rows


def _table_rows(piece: Piece, look: Look, style: str) -> list[Line]:
    blocks = parse_markdown(f"{piece.head}\n{piece.source}")
    if not blocks or not isinstance(blocks[0], Table):
        return block_lines(blocks, look, style)
    widths = None if piece.first else _fixed_widths(piece.head, piece.sample, look)
    rows = table_lines(blocks[0], look, lambda content: inline_lines(content, look, style), widths)
    return rows + block_lines(blocks[1:], look, style)


@lru_cache(8)
def _fixed_widths(head: str, sample: str, look: Look) -> list[int]:
    blocks = parse_markdown(f"{head}\n{sample}")
    if not blocks or not isinstance(blocks[0], Table):
        return []
    return table_widths(blocks[0], look, lambda content: inline_lines(content, look))


def markdown_rows(text: str, look: Look, style: str = "") -> list[Line]:
    """The rows of a whole text: the same that a stream of it ends with."""
    stream = MarkdownStream()
    stream.feed(text)
    stream.finish()
    return [row for piece in stream.take() for row in piece_rows(piece, look, style)]


# What may be the beginning of a link, an address, an entity or an escape is shown when it is complete.
_HELD = re.compile(
    r"(?:!?\[[^\]\n]{0,200}(?:\](?:\([^)\n]{0,200})?)?|<[a-zA-Z][a-zA-Z0-9+.-]{0,31}:?[^\s<>]{0,200}|<|&#?[a-zA-Z0-9]{0,31}|\\|!)$"
)
_SPECIAL = re.compile(r"\\.|(`+)|(\*{1,3}|_{1,3}|~~)")


def completed(source: str) -> str:
    """Unfinished Markdown such that it looks as it will when it is complete: emphasis and code are closed."""
    begin = source.rfind("\n\n") + 1
    head, text = source[:begin], source[begin:]
    if held := _HELD.search(text, max(len(text) - 2 * MAX_HELD, 0)):
        text = text[: held.start()]
    text = text.rstrip("*_~ ").removesuffix("\\")
    stack: list[str] = []
    at = 0
    while found := _SPECIAL.search(text, at):
        at = found.end()
        if found[1]:
            close = re.compile(rf"(?<!`){found[1]}(?!`)").search(text, at)
            if close is None:
                if at == len(text):  # nothing is in it yet
                    return head + _closed(text[: found.start()], stack)
                return head + _closed(f"{text}{found[1]}", stack)
            at = close.end()
        elif found[2]:
            _flank(text, found, stack)
    return head + _closed(text, stack)


def _flank(text: str, found: re.Match[str], stack: list[str]) -> None:
    """Note that emphasis begins or ends."""
    mark = found[2]
    before, after = text[found.start() - 1 : found.start()], text[found.end() : found.end() + 1]
    closes = bool(before) and not before.isspace() and (mark[0] != "_" or not after.isalnum())
    opens = not after.isspace() and (mark[0] != "_" or not before.isalnum())
    if closes and mark in stack:
        del stack[stack.index(mark) :]
    elif opens and len(stack) < MAX_OPEN_MARKS:
        stack.append(mark)


def _closed(text: str, stack: list[str]) -> str:
    """Close open emphasis; a mark at the very end is left out, because nothing is in it yet."""
    marks = list(stack)
    while marks and text.endswith(marks[-1]):
        text = text[: -len(marks.pop())].rstrip(" ")
    return text + "".join(reversed(marks))
