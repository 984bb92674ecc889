"""Text on its way into HTML, and numbers and times on their way into text."""

from __future__ import annotations

import json
import re
from html import escape
from typing import Any

from tau.records.base import BadRecord, encode, plain
from tau.records.nesting import too_deep

# Not allowed in HTML, or of no width: NUL, most controls, halves of surrogate pairs.
_UNSOUND = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
TOO_DEEP = "(nested too deeply to be shown)"
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(:\d\d)")


def sound(text: str) -> str:
    """The same text, fit to be part of a document: LF line ends, nothing that cannot be written."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _UNSOUND.sub("\N{REPLACEMENT CHARACTER}", text)


def esc(text: str) -> str:
    """Text for an element or for an attribute in double quotes."""
    return escape(sound(text), quote=True)


def line(text: str, longest: int) -> str:
    """The beginning of a text, in one line."""
    words = " ".join(text[: longest * 4].split())
    return words if len(words) <= longest else words[: longest - 1].rstrip() + "…"


def short_path(path: str, cwd: str) -> str:
    """A path as one reads it inside `cwd`."""
    inside = path.removeprefix(cwd.rstrip("/") + "/")
    return inside if cwd and inside else path


def day(timestamp: str) -> str:
    found = _TIME.match(timestamp)
    return found[1] if found else ""


def clock(timestamp: str) -> str:
    found = _TIME.match(timestamp)
    return found[2] if found else ""


def moment(timestamp: str) -> str:
    """Day and time of an ISO timestamp; whatever else stands there is shown as it is."""
    found = _TIME.match(timestamp)
    return f"{found[1]} {found[2]}{found[3]} UTC" if found else timestamp[:40]


def span(start: str, end: str) -> str:
    """From one moment to another, to the minute."""
    first, last = (f"{day(at)} {clock(at)}" if day(at) else at[:40] for at in (start, end))
    return f"{first} to {last} UTC" if last and last != first else f"{first} UTC"


def count(number: int, noun: str, plural: str = "") -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def tokens(number: int) -> str:
    if number < 1000:
        return str(number)
    if number < 1_000_000:
        return f"{number / 1000:.1f}k" if number < 10_000 else f"{round(number / 1000)}k"
    return f"{number / 1_000_000:.1f}M"


def dollars(amount: float) -> str:
    return "<$0.001" if 0 < amount < 0.0005 else f"${amount:,.3f}"


def json_in_html(value: object) -> bytes:
    """JSON that can stand in a script element: no character of it means anything to HTML."""
    data = encode(value)
    return data.replace(b"<", rb"\u003c").replace(b">", rb"\u003e").replace(b"&", rb"\u0026")


def pretty(value: Any, indent: int | None = 2) -> str:
    """A value as JSON for people."""
    try:
        if too_deep(encode(value)):
            return TOO_DEEP
        return json.dumps(plain(value), indent=indent, ensure_ascii=False)
    except (BadRecord, RecursionError):
        return TOO_DEEP
