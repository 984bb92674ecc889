"""JSON that people write by hand: // and /* */ comments, trailing commas, a BOM."""

from __future__ import annotations

import re

# Strings first, so that what looks like a comment inside one is left alone.
_COMMENTS = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_COMMAS = re.compile(r'"(?:\\.|[^"\\])*"|,(?=\s*[}\]])', re.DOTALL)


def strict(text: str) -> str:
    """The same as strict JSON, with every line where it was."""
    return _COMMAS.sub(_kept, _COMMENTS.sub(_kept, text.removeprefix("\ufeff")))


def _kept(token: re.Match[str]) -> str:
    text = token.group()
    return text if text.startswith('"') else re.sub(r"[^\n]", " ", text)
