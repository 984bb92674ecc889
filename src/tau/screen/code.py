"""Source code as lines."""

from __future__ import annotations

from tau.screen.cells import wrap_line
from tau.screen.lines import Line, Span
from tau.screen.look import Look


def code_lines(text: str, language: str, look: Look, style: str = "mdCodeBlock") -> list[Line]:
    """Code, wrapped at the width. Nothing is put before or after a line: it can be copied."""
    rows: list[Line] = []
    for line in text.split("\n"):
        rows += wrap_line((Span(line, style),), look.width) if line else [()]
    return rows


def language_of(path: str) -> str:
    """The language of a file by its name."""
    return path.rpartition("/")[2].rpartition(".")[2].lower()
