"""A frame: what should be on the screen now, for the painter.

Rows have absolute numbers from the start of the program. `rows` begins at row `top`; the painter leaves rows that
have scrolled off the screen as they are (`Painter.first_visible`), so the view need not keep them.
"""

from __future__ import annotations

from typing import NamedTuple

from tau.records.base import Value
from tau.screen.lines import Line


class Cursor(NamedTuple):
    row: int  # absolute
    column: int


class Frame(Value):
    top: int
    rows: tuple[Line, ...]
    cursor: Cursor | None = None  # None hides it
