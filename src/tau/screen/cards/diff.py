"""Diffs in the format of the edit tool: a sign, a line number and the text. Changed words are marked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from tau.core.text.diff import changes
from tau.screen.cards.text import more
from tau.screen.cells import line_width
from tau.screen.lines import Line, Span
from tau.screen.look import Look, wrap
from tau.screen.safe_text import clean_text

MAX_LINES = 400  # unless it is expanded
MAX_WORDS = 400  # of a line whose changed words are marked
MAX_CHANGED = 0.6  # a line of which more changed has no marks

_ROW = re.compile(r"([-+ ])( *\d+) (.*)$")
_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_STYLES = {"+": "toolDiffAdded", "-": "toolDiffRemoved", " ": "toolDiffContext"}


class _Row(NamedTuple):
    sign: str
    number: str
    text: str


def diff_rows(diff: str, look: Look) -> list[Line]:
    lines = clean_text(diff).split("\n")
    hidden = 0 if look.expanded else max(len(lines) - MAX_LINES, 0)
    if hidden:
        lines = lines[:MAX_LINES]
    rows: list[Line] = []
    removed: list[_Row] = []
    added: list[_Row] = []
    for line in lines:
        found = _ROW.match(line)
        row = _Row(*found.groups()) if found else None
        if row is not None and row.sign == "-" and not added:
            removed.append(row)
        elif row is not None and row.sign == "+":
            added.append(row)
        else:
            rows += _changed(removed, added, look)
            removed, added = ([row], []) if row is not None and row.sign == "-" else ([], [])
            if row is None:
                rows += wrap((Span(line, "toolDiffContext"),), look.width)
            elif row.sign == " ":
                rows += _shown(row, [row.text], look)
    rows += _changed(removed, added, look)
    return [*rows, more(hidden, "more", look)] if hidden else rows


def _changed(removed: Sequence[_Row], added: Sequence[_Row], look: Look) -> list[Line]:
    """Lines that were replaced: those removed, then those added. If they are as many, they are compared by pairs."""
    if len(removed) != len(added):
        return [line for row in (*removed, *added) for line in _shown(row, [row.text], look)]
    pairs = [_compared(old.text, new.text) for old, new in zip(removed, added, strict=True)]
    before = [line for row, (parts, _) in zip(removed, pairs, strict=True) for line in _shown(row, parts, look)]
    return before + [line for row, (_, parts) in zip(added, pairs, strict=True) for line in _shown(row, parts, look)]


def _compared(old: str, new: str) -> tuple[list[str], list[str]]:
    """Both lines in parts, which are alternately the same and changed."""
    before, after = _WORD.findall(old), _WORD.findall(new)
    if len(before) > MAX_WORDS or len(after) > MAX_WORDS:
        return [old], [new]
    old_parts, new_parts = [""], [""]
    at = 0
    changed = 0
    for change in changes(before, after):
        same = "".join(before[at : change.start])
        gone, come = "".join(before[change.start : change.end]), "".join(after[change.new_start : change.new_end])
        old_parts[-1] += same
        new_parts[-1] += same
        old_parts += [gone, ""]
        new_parts += [come, ""]
        changed += len(gone) + len(come)
        at = change.end
    old_parts[-1] += "".join(before[at:])
    new_parts[-1] += "".join(before[at:])
    if changed > MAX_CHANGED * (len(old) + len(new)):
        return [old], [new]
    return old_parts, new_parts


def _shown(row: _Row, parts: Sequence[str], look: Look) -> list[Line]:
    style = _STYLES[row.sign]
    gutter = (Span(f"{row.sign}{row.number} ", style),)
    text = tuple(Span(part, f"{style} inverse" if at % 2 else style) for at, part in enumerate(parts) if part)
    width = line_width(gutter)
    inside = wrap(text, look.narrower(width).width)
    return [(*(gutter if not at else (Span(" " * width, style),)), *line) for at, line in enumerate(inside)]
