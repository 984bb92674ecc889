"""Diffs as the edit tool gives them: a sign, a line number and the text; changed words are marked."""

from __future__ import annotations

import re

from tau.screen.lines import Line, Span
from tau.screen.look import Look, wrap
from tau.screen.safe_text import clean_text

_ROW = re.compile(r"([-+ ])( *\d+) (.*)$")
_STYLES = {"+": "toolDiffAdded", "-": "toolDiffRemoved", " ": "toolDiffContext"}


def diff_rows(diff: str, look: Look) -> list[Line]:
    rows: list[Line] = []
    for text in clean_text(diff).split("\n"):
        found = _ROW.match(text)
        if not found:
            rows.append((Span(text, "toolDiffContext"),))
            continue
        sign, number, content = found.groups()
        style = _STYLES[sign]
        before = f"{sign}{number} "
        inside = wrap((Span(content, style),) if content else (), look.narrower(len(before)).width)
        for at, row in enumerate(inside):
            rows.append((Span(before if not at else " " * len(before), style), *row))
    return rows
