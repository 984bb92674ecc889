"""JSON written by hand: // and /* */ comments, trailing commas, a BOM."""

from __future__ import annotations

import re

# Strings match first, so that comment syntax inside a string is kept.
_COMMENTS = r'(?s)"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/'
_COMMAS = r'(?s)"(?:\\.|[^"\\])*"|,(?=\s*[}\]])'


def strip_comments(text: str) -> str:
    """Convert to strict JSON. Line numbers stay the same, and so do the positions of characters after a BOM."""
    return re.sub(_COMMAS, _blank_out, blank_comments(text.removeprefix("\ufeff")))


def blank_comments(text: str) -> str:
    """Replace comments by spaces; trailing commas stay."""
    return re.sub(_COMMENTS, _blank_out, text)


def _blank_out(token: re.Match[str]) -> str:
    text = token.group()
    return text if text.startswith('"') else re.sub(r"[^\n]", " ", text)
