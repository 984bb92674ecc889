"""JSON written by hand: // and /* */ comments, trailing commas, a BOM."""

from __future__ import annotations

import re

# Strings match first, so that comment syntax inside a string is kept. A string or comment without an end extends to the
# end of the text: the text is not searched again from each quotation mark in it.
_COMMENTS = r'(?s)"(?:\\.|[^"\\])*(?:"|\\?\Z)|//[^\n]*|/\*.*?(?:\*/|\Z)'
_COMMAS = r'(?s)"(?:\\.|[^"\\])*(?:"|\\?\Z)|,(?=\s*[}\]])'


def strip_comments(text: str) -> str:
    """Convert to strict JSON. Line numbers stay the same, and so do the positions of characters after a BOM."""
    return re.sub(_COMMAS, _blank_out, blank_comments(text.removeprefix("\ufeff")))


def blank_comments(text: str) -> str:
    """Replace comments by spaces; trailing commas stay."""
    return re.sub(_COMMENTS, _blank_out, text)


def _blank_out(token: re.Match[str]) -> str:
    text = token.group()
    if text.startswith('"') or (text.startswith("/*") and (len(text) < 4 or not text.endswith("*/"))):
        return text  # with a comment without an end, the text is not valid
    return re.sub(r"[^\n]", " ", text)
