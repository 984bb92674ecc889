"""Tables that fit: cells wrap, then columns shrink, then each row becomes a block of `name: value` lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tau.core.text.markup import Inlines, Table
from tau.screen.cells import line_width, text_width
from tau.screen.lines import Line, Span, plain_text
from tau.screen.look import Look, wrap

GAP = 3  # columns between two cells: " │ "
NUMBER = 3  # columns: a number may get longer in the rows of a table whose widths are fixed
MIN_COLUMN = 6  # narrower columns become `name: value` lines
MAX_WORD = 24  # a longer word does not keep a column wide

Cell = list[Line]  # its lines, not wrapped
Render = Callable[[Inlines], list[Line]]


def table_lines(table: Table, look: Look, render: Render, fixed: Sequence[int] | None = None) -> list[Line]:
    """The rows of a table. With `fixed`, they continue a table with these columns: without its head."""
    head, *rows = _cells(table, render)
    columns = column_widths(head, rows, look.width) if fixed is None else fixed
    if look.plain or not columns:
        blocks = _as_blocks(head, rows, look)
        return [(), *blocks] if fixed is not None else blocks
    out: list[Line] = []
    if fixed is None:
        out += _row(head, columns, table.alignments, "bold")
        out.append((Span("─┼─".join("─" * width for width in columns), "mdHr"),))
    for row in rows:
        out += _row(row, columns, table.alignments, "")
    return out


def table_widths(table: Table, look: Look, render: Render) -> list[int]:
    """The widths of the columns, or [] if rows are shown as `name: value` lines."""
    head, *rows = _cells(table, render)
    return column_widths(head, rows, look.width)


def _cells(table: Table, render: Render) -> list[list[Cell]]:
    count = len(table.alignments)
    rows = [list(row) + [()] * (count - len(row)) for row in (table.head, *table.rows)]
    return [[render(cell) for cell in row[:count]] for row in rows]


def column_widths(head: Sequence[Cell], rows: Sequence[Sequence[Cell]], width: int) -> list[int]:
    """The width of each column, or [] if the table does not fit."""
    count = len(head)
    room = width - GAP * (count - 1)
    if count == 0 or width <= 0:
        return []
    natural = [max(NUMBER, *(line_width(line) for row in (head, *rows) for line in row[at])) for at in range(count)]
    if sum(natural) <= room:
        return natural
    words = [max(1, *(_longest_word(row[at]) for row in (head, *rows))) for at in range(count)]
    least = [min(max(word, NUMBER), MAX_WORD) for word in words]
    if sum(least) > room:
        if room < MIN_COLUMN * count:
            return []
        least = [min(size, MIN_COLUMN) for size in least]
    return _share(natural, least, room)


def _share(natural: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Widths between `least` and `natural` that fill the room: the space goes to the narrowest unfinished column."""
    widths = list(least)
    spare = room - sum(widths)
    while spare > 0:
        open_columns = [at for at, size in enumerate(widths) if size < natural[at]]
        if not open_columns:
            break
        each = max(spare // len(open_columns), 1)
        for at in open_columns:
            grown = min(each, natural[at] - widths[at], spare)
            widths[at] += grown
            spare -= grown
    return widths


def _longest_word(cell: Cell) -> int:
    return max((text_width(word) for line in cell for word in plain_text(line).split()), default=1)


def _row(cells: Sequence[Cell], widths: Sequence[int], alignments: Sequence[str], style: str) -> list[Line]:
    wrapped = [[row for line in cell for row in wrap(line, width)] for cell, width in zip(cells, widths, strict=True)]
    out: list[Line] = []
    for number in range(max(map(len, wrapped))):
        spans: list[Span] = []
        for at, rows in enumerate(wrapped):
            part = rows[number] if number < len(rows) else ()
            if style:
                part = tuple(span._replace(style=f"{span.style} {style}".strip()) for span in part)
            if at:
                spans.append(Span(" │ ", "mdHr"))
            spans += _aligned(part, widths[at], alignments[at], last=at + 1 == len(widths))
        out.append(tuple(spans))
    return out


def _aligned(part: Line, width: int, alignment: str, *, last: bool) -> list[Span]:
    if last and not part:
        return []
    spare = width - line_width(part)
    before = {"right": spare, "center": spare // 2}.get(alignment, 0)
    after = 0 if last else spare - before
    return [*([Span(" " * before)] if before > 0 else ()), *part, *([Span(" " * after)] if after > 0 else ())]


def _as_blocks(head: Sequence[Cell], rows: Sequence[Sequence[Cell]], look: Look) -> list[Line]:
    out: list[Line] = []
    for number, row in enumerate(rows):
        if number:
            out.append(())
        for name, cell in zip(head, row, strict=True):
            label = tuple(span._replace(style=f"{span.style} bold".strip()) for line in name for span in line)
            value = [span for line in cell for span in (*line, Span(" "))][:-1]
            out += wrap((*label, Span(": ", "bold"), *value), look.width, "  " if look.width > 8 else "")
    return out or [tuple(span for name in head for line in name for span in (*line, Span(" ")))[:-1]]
