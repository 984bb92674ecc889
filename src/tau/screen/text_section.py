"""Text and thinking of a model as a section of the transcript."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from tau.screen.blocks import Piece
from tau.screen.lines import Line, Span
from tau.screen.look import Look, wrap
from tau.screen.safe_text import one_line
from tau.screen.sections import Block
from tau.screen.stream import MarkdownStream, piece_rows

THINKING = "thinkingText italic"


class PieceCard:
    """A finished piece of Markdown."""

    __slots__ = ("_piece", "_style")

    def __init__(self, piece: Piece, style: str) -> None:
        self._piece, self._style = piece, style

    def state(self, now: float) -> Hashable:
        return None

    def rows(self, look: Look, now: float) -> list[Line]:
        return piece_rows(self._piece, look, self._style)


class _TailCard:
    """The unfinished end of a stream."""

    def __init__(self, stream: MarkdownStream, style: str) -> None:
        self._stream, self._style = stream, style
        self.begun = False

    def state(self, now: float) -> Hashable:
        return self._stream.version, self.begun

    def rows(self, look: Look, now: float) -> list[Line]:
        rows = self._stream.tail(look, self._style)
        while rows and not rows[0] and not self.begun:
            del rows[0]
        return rows


class _Label:
    """What stands for hidden thinking."""

    def state(self, now: float) -> Hashable:
        return None

    def rows(self, look: Look, now: float) -> list[Line]:
        return wrap((Span(one_line(look.thinking_label), THINKING),), look.width)


class TextSection:
    """Text or thinking of a model, streamed or whole."""

    def __init__(self, *, thinking: bool = False) -> None:
        self.stream = MarkdownStream()
        self.open = True
        self.gone = False  # its unfinished end has scrolled off the screen: what follows needs another section
        self._thinking = thinking
        self._style = THINKING if thinking else ""
        self._tail = _TailCard(self.stream, self._style)
        self._settled: list[Block] = []
        self._last = Block(self._tail, lead=True, flows=True)
        self._label: list[Block] = []  # not empty while the text is hidden

    def finish(self) -> None:
        if self.open:
            self.stream.finish()
            self.open = False

    def blocks(self, look: Look, now: float, above: int = 0) -> Sequence[Block]:
        if above and above > sum(block.height for block in self._settled):
            self.stream.fix_table()
        self._settle(self.stream.take())
        if self._thinking and look.hide_thinking and (self._settled or self.open):
            self._label = self._label or [Block(_Label(), lead=True, replaces=True)]
            return self._label
        self._label = []
        return [*self._settled, self._last] if self.open else self._settled

    def _settle(self, pieces: Iterable[Piece]) -> None:
        for piece in pieces:
            begun = self._tail.begun
            card = PieceCard(piece if begun else piece._replace(gap=False), self._style)
            block = Block(card, lead=not begun, flows=True)
            block.inherit(self._last)
            self._last = Block(self._tail, flows=True)
            self._settled.append(block)
            self._tail.begun, self._last.lead = True, False

    def splice(self, start: int, end: int, blocks: Sequence[Block] = ()) -> None:
        if self.open and end > (0 if self._label else len(self._settled)):
            self.open, self.gone = False, True
        if self._label:
            start, end = 0, len(self._settled)
        self._settled[start:end] = blocks
