"""The blocks of the transcript at their places: rows with absolute numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tau.records.base import Value
from tau.screen.cards.notices import LineCard
from tau.screen.lines import Line
from tau.screen.look import Look
from tau.screen.sections import Block, Section

MAX_WAITING = 2_000  # rows that a slow terminal gets later; of more, only the last ones are shown


class Placed(Value):
    """A block at its place: the numbers of its first row and of the row after it."""

    section: Section
    number: int  # of the block in its section
    block: Block
    rows: list[Line]
    start: int
    end: int
    finished: bool

    @property
    def live(self) -> bool:
        """Its rows can still change: an unfinished text, a tool or command that runs."""
        return not self.finished or not getattr(self.block.card, "finished", True)


def lay_out(sections: Sequence[Section], at: int, first: int, look: Look, now: float) -> Iterator[Placed]:
    for section in sections:
        blocks = section.blocks(look, now, max(first - at, 0))
        for number, block in enumerate(blocks):
            if at == 0:
                block.lead = False
            rows = block.rows(look, now, max(first - at, 0))
            finished = not section.open or number + 1 < len(blocks)
            yield Placed(section, number, block, rows, at, at + len(rows), finished)
            at += len(rows)


def forget(laid_out: Sequence[Placed], first: int, base: int) -> int:
    """Remove the blocks that have scrolled off the screen; return the number of the first row that is left."""
    gone: dict[int, tuple[Section, int]] = {}
    for placed in laid_out:
        is_end = placed is laid_out[-1] and not placed.finished
        if placed.end > first or is_end:
            break
        gone[id(placed.section)] = placed.section, placed.number + 1
        base = placed.end
    for section, count in gone.values():
        section.splice(0, count)
    return base


def hide(laid_out: Sequence[Placed], shown: int, limit: int, look: Look) -> bool:
    """Put one line in place of the blocks between the rows `shown` and `limit`, for which a terminal was too slow."""
    hidden = [placed for placed in laid_out if placed.start >= shown and placed.end <= limit and placed.finished]
    count = sum(len(placed.rows) for placed in hidden)
    if count < 2:
        return False
    note = Block(LineCard(f"… {count:,} lines not shown · {look.viewer_key}"), lead=True)
    for placed in reversed(hidden):
        placed.section.splice(placed.number, placed.number + 1, [note] if placed is hidden[0] else [])
    return True
