"""Pieces that cards are made of: text that folds, pictures, diffs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from itertools import groupby
from typing import Literal

from tau.export.code import Highlighter, plain_lines
from tau.export.text import count, esc, sound
from tau.records.messages import Image, Text

SLACK = 3  # lines that are not worth a fold
WIDEST = 600  # characters of a line that is shown unasked
DIFF_LINES = 40

_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
# The first bytes of each kind of picture, in base64.
_PICTURES = {
    "image/png": "iVBORw0KGg",
    "image/jpeg": "/9j/",
    "image/gif": "R0lGOD",
    "image/webp": "UklGR",
}
_TAG = re.compile(r"<[^>]*>")
_DIFF_ROW = re.compile(r"([-+ ])( *\d*) (.*)")


@dataclass(frozen=True)
class Context:
    """What the pieces need besides what they show."""

    code: Highlighter
    cwd: str


def folded(lines: Sequence[str], shown: int, end: Literal["head", "tail"] = "head") -> str:
    """Lines of HTML: the first or last few, and the rest at a click."""
    some, others = _part(lines, shown, end)
    if any(_is_wide(line) for line in some):
        return _clipped(lines, some)
    pre = f"<pre>{_joined(some)}</pre>"
    if not others:
        return pre
    word = "more line" if end == "head" else "earlier line"
    rest = _fold(count(len(others), word), f"<pre>{_joined(others)}</pre>")
    return pre + rest if end == "head" else rest + pre


def _part(lines: Sequence[str], shown: int, end: Literal["head", "tail"]) -> tuple[Sequence[str], Sequence[str]]:
    if len(lines) <= shown + SLACK:
        return lines, []
    if end == "tail":
        return lines[-shown:], lines[:-shown]
    while shown > 1 and not lines[shown - 1].strip():  # a part ends with something to see
        shown -= 1
    return lines[:shown], lines[shown:]


def _clipped(lines: Sequence[str], some: Sequence[str]) -> str:
    """A line goes on and on: what is shown is cut, and the whole stands in the fold."""
    # A cut could go through a tag, so the cut line is plain text again.
    cut = [esc(_text(line)[:WIDEST]) + "…" if _is_wide(line) else line for line in some]
    whole = _fold(f"all {count(len(lines), 'line')}, uncut", f"<pre>{_joined(lines)}</pre>")
    return f'<pre class="cut">{_joined(cut)}</pre>{whole}'


def _is_wide(html: str) -> bool:
    return len(html) > WIDEST and len(_text(html)) > WIDEST


def _text(html: str) -> str:
    return unescape(_TAG.sub("", html))


def _joined(lines: Sequence[str]) -> str:
    # A parser drops a newline directly after <pre>.
    html = "\n".join(lines)
    return "\n" + html if html.startswith("\n") else html


def _fold(title: str, html: str) -> str:
    return f'<details class="more"><summary>{title}</summary>{html}</details>'


def output(text: str, shown: int, end: Literal["head", "tail"] = "head") -> str:
    """Plain text, folded; nothing for nothing."""
    text = text.rstrip()
    return folded(plain_lines(text), shown, end) if text else ""


def image(block: Image) -> str:
    """A picture whose type and beginning agree, or a line that says what it is instead."""
    begins = _PICTURES.get(block.mime_type)
    data = block.data
    if begins is None or not data.startswith(begins) or not _BASE64.fullmatch(data):
        return f'<p class="note">[a picture that cannot be shown: {esc(block.mime_type[:60])}]</p>'
    return f'<img alt="" loading="lazy" decoding="async" src="data:{block.mime_type};base64,{data}">'


def images(content: str | Sequence[Text | Image]) -> str:
    found = [] if isinstance(content, str) else [image(block) for block in content if isinstance(block, Image)]
    return f'<div class="pictures">{"".join(found)}</div>' if found else ""


def diff(text: str) -> str:
    """The rows of an edit: sign, line number, text. Changed words of a changed line stand out."""
    rows = [_row(line) for line in sound(text).split("\n")]
    html = [piece for sign, group in _changes(rows) for piece in _marked(sign, group)]
    return f'<div class="diff">{folded(html, DIFF_LINES)}</div>'


Row = tuple[str, str, str]  # sign, number, text


def _row(line: str) -> Row:
    found = _DIFF_ROW.fullmatch(line)
    return (found[1], found[2], found[3]) if found else (" ", "", line)


def _changes(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    for changed, group in groupby(rows, key=lambda row: row[0] != " "):
        yield "±" if changed else " ", list(group)


def _marked(sign: str, rows: list[Row]) -> Iterator[str]:
    before = [row for row in rows if row[0] == "-"]
    after = [row for row in rows if row[0] == "+"]
    if sign == " " or len(before) != len(after):
        yield from (_row_html(row, esc(row[2])) for row in rows)
        return
    pairs = [_apart(old[2], new[2]) for old, new in zip(before, after, strict=True)]
    yield from (_row_html(row, old) for row, (old, _) in zip(before, pairs, strict=True))
    yield from (_row_html(row, new) for row, (_, new) in zip(after, pairs, strict=True))


def _apart(old: str, new: str) -> tuple[str, str]:
    """Both lines with what is not common to them marked; lines with little in common stay as they are."""
    most = min(len(old), len(new))
    start = next((at for at in range(most) if old[at] != new[at]), most)
    most -= start
    end = next((at for at in range(most) if old[-1 - at] != new[-1 - at]), most)
    if (start + end) * 3 < max(len(old), len(new)):
        return esc(old), esc(new)
    return _mark(old, start, len(old) - end), _mark(new, start, len(new) - end)


def _mark(text: str, start: int, stop: int) -> str:
    middle = f"<mark>{esc(text[start:stop])}</mark>" if start < stop else ""
    return esc(text[:start]) + middle + esc(text[stop:])


def _row_html(row: Row, html: str) -> str:
    sign, number, _ = row
    tag = {"+": "ins", "-": "del"}.get(sign, "span")
    return f"<{tag}><i>{esc(number)} {sign}</i>{html}</{tag}>"
