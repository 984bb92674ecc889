"""Escaping of text for HTML, and formatting of numbers and times."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from html import escape
from typing import Any

from tau.records.base import BadRecord, encode, to_builtins
from tau.records.nesting import too_deep

# Not allowed in HTML, or invisible: NUL, most control characters, lone surrogates.
_INVALID = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_INVALID_BYTES = bytes(byte for byte in range(0x80) if chr(byte) == "\r" or _INVALID.match(chr(byte)))
TOO_DEEP = "(nested too deeply to be shown)"
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(:\d\d)")


def valid_text(text: str) -> str:
    """Make text valid for a document: LF line endings, no characters that HTML cannot contain."""
    # Almost all text is valid, and that is seen several times faster in its bytes than by a regular expression.
    if len(text) < 200 and text.isprintable():
        return text
    try:
        data = text.encode()
    except UnicodeEncodeError:  # a lone surrogate
        pass
    else:
        if len(data.translate(None, _INVALID_BYTES)) == len(data):
            return text
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _INVALID.sub("\N{REPLACEMENT CHARACTER}", text)


def esc(text: str) -> str:
    """Escape text for an element or a double-quoted attribute."""
    return escape(valid_text(text), quote=True)


def escape_text(text: str) -> str:
    """Escape valid text for an element. Most of it has nothing to escape, and there may be very many pieces of it."""
    if "&" in text:
        text = text.replace("&", "&amp;")
    if "<" in text:
        text = text.replace("<", "&lt;")
    return text.replace(">", "&gt;") if ">" in text else text


def single_line(text: str, longest: int) -> str:
    """Return the beginning of a text as one line of at most `longest` characters."""
    words = " ".join(text[: longest * 2].split())
    if len(words) <= longest < len(text):  # it has much white space
        words = " ".join(text[: longest * 4].split())
    return words if len(words) <= longest else words[: longest - 1].rstrip() + "…"


def short_path(path: str, cwd: str) -> str:
    """Return a path relative to `cwd` if it is inside."""
    inside = path.removeprefix(cwd.rstrip("/") + "/")
    return inside if cwd and inside else path


@lru_cache(maxsize=16)  # a card asks for several parts of its time, and the next one for its day
def _parts_of_time(timestamp: str) -> re.Match[str] | None:
    return _TIME.match(timestamp)


def day(timestamp: str) -> str:
    match = _parts_of_time(timestamp)
    return match[1] if match else ""


def clock(timestamp: str) -> str:
    match = _parts_of_time(timestamp)
    return match[2] if match else ""


def format_time(timestamp: str) -> str:
    """Format an ISO timestamp as date and time. Anything else is returned as it is, truncated."""
    match = _parts_of_time(timestamp)
    return f"{match[1]} {match[2]}{match[3]} UTC" if match else timestamp[:40]


def format_period(start: str, end: str) -> str:
    """Format a period, to the minute."""
    first, last = (f"{day(time)} {clock(time)}" if day(time) else time[:40] for time in (start, end))
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
    """Encode JSON for a script element, without characters that are special in HTML."""
    data = encode(value)
    return data.replace(b"<", rb"\u003c").replace(b">", rb"\u003e").replace(b"&", rb"\u0026")


def pretty(value: Any, indent: int | None = 2) -> str:
    """Format a value as JSON for people."""
    try:
        if too_deep(encode(value)):
            return TOO_DEEP
        return json.dumps(to_builtins(value), indent=indent, ensure_ascii=False)
    except (BadRecord, RecursionError):  # too deep to be readable anyway
        return TOO_DEEP
