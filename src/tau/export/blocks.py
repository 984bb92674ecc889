"""Building blocks of cards: collapsible text, images, diffs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape, unescape
from itertools import groupby
from typing import Literal

from tau.export.code import HtmlCode, plain_lines
from tau.export.text import count, esc, valid_text
from tau.records.base import Value
from tau.records.messages import Image, Text

FOLD_SLACK_LINES = 3  # hiding no more lines than these is not worth a fold
MAX_LINE_CHARACTERS = 600  # longer lines are shown only on request
DIFF_LINES = 40

_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
# The first bytes of each image type, in base64.
_IMAGE_PREFIXES = {
    "image/png": "iVBORw0KGg",
    "image/jpeg": "/9j/",
    "image/gif": "R0lGOD",
    "image/webp": "UklGR",
}
_TAG = re.compile(r"<[^>]*>")
_DIFF_TAGS = {"+": "ins", "-": "del"}
_DIFF_ROW = re.compile(r"^(?:([-+ ])( *\d*) )?(.*)$", re.MULTILINE)  # a line of any other form is text


class RenderContext(Value):
    """Shared state of the functions that produce HTML."""

    code: HtmlCode
    cwd: str


def fold_lines(lines: Sequence[str], shown: int, end: Literal["head", "tail"] = "head") -> str:
    """Show the first or last `shown` lines of HTML, and the rest on a click."""
    visible, hidden = _split(lines, shown, end)
    if len(max(visible, key=len, default="")) > MAX_LINE_CHARACTERS and any(map(_is_wide, visible)):
        return _truncated(lines, visible)
    pre = f"<pre>{_joined(visible)}</pre>"
    if not hidden:
        return pre
    label = "more line" if end == "head" else "earlier line"
    rest = _fold(count(len(hidden), label), f"<pre>{_joined(hidden)}</pre>")
    return pre + rest if end == "head" else rest + pre


def _split(lines: Sequence[str], shown: int, end: Literal["head", "tail"]) -> tuple[Sequence[str], Sequence[str]]:
    if len(lines) <= shown + FOLD_SLACK_LINES:
        return lines, []
    if end == "tail":
        return lines[-shown:], lines[:-shown]
    while shown > 1 and not lines[shown - 1].strip():  # do not end with a blank line
        shown -= 1
    return lines[:shown], lines[shown:]


def _truncated(lines: Sequence[str], visible: Sequence[str]) -> str:
    """Truncate very long lines; the full text is in the fold."""
    # Truncation could split a tag, so the truncated line is converted back to plain text.
    shown = [esc(_text(line)[:MAX_LINE_CHARACTERS]) + "…" if _is_wide(line) else line for line in visible]
    everything = _fold(f"all {count(len(lines), 'line')}, not truncated", f"<pre>{_joined(lines)}</pre>")
    return f'<pre class="cut">{_joined(shown)}</pre>{everything}'


def _is_wide(html: str) -> bool:
    return len(html) > MAX_LINE_CHARACTERS and len(_text(html)) > MAX_LINE_CHARACTERS


def _text(html: str) -> str:
    return unescape(_TAG.sub("", html))


def _joined(lines: Sequence[str]) -> str:
    # A parser drops a newline directly after <pre>.
    html = "\n".join(lines)
    return "\n" + html if html.startswith("\n") else html


def _fold(title: str, html: str) -> str:
    return f'<details class="more"><summary>{title}</summary>{html}</details>'


def output(text: str, shown: int, end: Literal["head", "tail"] = "head") -> str:
    """Plain text, folded. Empty text gives an empty string."""
    text = text.rstrip()
    return fold_lines(plain_lines(text), shown, end) if text else ""


def image(block: Image) -> str:
    """An image whose data matches its type, or a note instead."""
    prefix = _IMAGE_PREFIXES.get(block.mime_type)
    data = block.data
    if prefix is None or not data.startswith(prefix) or not _BASE64.fullmatch(data):
        return f'<p class="note">[image that cannot be shown: {esc(block.mime_type[:60])}]</p>'
    return f'<img alt="" loading="lazy" decoding="async" src="data:{block.mime_type};base64,{data}">'


def images(content: str | Sequence[Text | Image]) -> str:
    shown = [] if isinstance(content, str) else [image(block) for block in content if isinstance(block, Image)]
    return f'<div class="pictures">{"".join(shown)}</div>' if shown else ""


Row = tuple[str, str, str]  # sign, number, text


def diff(text: str) -> str:
    """The rows of an edit: sign, line number, text. Changed words within a changed line are marked."""
    text = valid_text(text)
    plain: list[Row] = _DIFF_ROW.findall(text)
    escaped: list[Row] = _DIFF_ROW.findall(escape(text))  # which leaves signs and numbers as they are
    html: list[str] = []
    for is_changed, group in groupby(plain, key=_is_changed):
        rows = list(group)
        here = slice(len(html), len(html) + len(rows))
        html += _marked(rows, escaped[here]) if is_changed else map(_row_html, escaped[here])
    return f'<div class="diff">{fold_lines(html, DIFF_LINES)}</div>'


def _is_changed(row: Row) -> bool:
    return row[0] in ("+", "-")


def _marked(rows: list[Row], escaped: list[Row]) -> Iterator[str]:
    """Removed and added rows as HTML; pairs of them have their differences marked."""
    before = [row for row in rows if row[0] == "-"]
    after = [row for row in rows if row[0] == "+"]
    if len(before) != len(after):
        return map(_row_html, escaped)
    pairs = [_mark_differences(old[2], new[2]) for old, new in zip(before, after, strict=True)]
    marked = [old for old, _ in pairs] + [new for _, new in pairs]
    return (_row_html((sign, number, html)) for (sign, number, _), html in zip(before + after, marked, strict=True))


def _mark_differences(old: str, new: str) -> tuple[str, str]:
    """Mark the differing middle part of both lines. Lines with little in common are left unmarked."""
    limit = min(len(old), len(new))
    start = next((index for index in range(limit) if old[index] != new[index]), limit)
    limit -= start
    end = next((index for index in range(limit) if old[-1 - index] != new[-1 - index]), limit)
    if (start + end) * 3 < max(len(old), len(new)):
        return escape(old), escape(new)
    return _mark(old, start, len(old) - end), _mark(new, start, len(new) - end)


def _mark(text: str, start: int, stop: int) -> str:
    middle = f"<mark>{escape(text[start:stop])}</mark>" if start < stop else ""
    return escape(text[:start]) + middle + escape(text[stop:])


def _row_html(row: Row) -> str:
    sign, number, html = row
    tag = _DIFF_TAGS.get(sign, "span")
    return f"<{tag}><i>{number} {sign or ' '}</i>{html}</{tag}>"
