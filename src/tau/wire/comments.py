"""JSON that people write by hand: // and /* */ comments, trailing commas, a BOM."""

from __future__ import annotations

import re

# Strings first, so that what looks like a comment inside one is left alone.
_COMMENTS = r'(?s)"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/'
_COMMAS = r'(?s)"(?:\\.|[^"\\])*"|,(?=\s*[}\]])'


def strict(text: str) -> str:
    """The same as strict JSON, with every line where it was."""
    return re.sub(_COMMAS, _kept, re.sub(_COMMENTS, _kept, text.removeprefix("\ufeff")))


def _kept(token: re.Match[str]) -> str:
    text = token.group()
    return text if text.startswith('"') else re.sub(r"[^\n]", " ", text)
