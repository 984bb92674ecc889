"""The fenced code blocks of a Markdown text, for copying. Any length, in one pass, without a Markdown parser."""

from __future__ import annotations

import re
from typing import NamedTuple

_FENCE = re.compile(r"([ \t]*)(`{3,}|~{3,})(.*)")


class FencedCode(NamedTuple):
    language: str
    text: str  # without the last line feed


def fenced_code(text: str) -> list[FencedCode]:
    """All blocks, in order. A block in a list loses the indentation of its fence; an unfinished one ends the text."""
    found: list[FencedCode] = []
    fence: re.Match[str] | None = None
    lines: list[str] = []
    for line in text.splitlines():
        match = _FENCE.fullmatch(line)
        if fence is None:
            if match is not None and not (match[2][0] == "`" and "`" in match[3]):
                fence, lines = match, []
        elif match is not None and match[2].startswith(fence[2]) and not match[3].strip():
            found.append(_block(fence, lines))
            fence = None
        else:
            lines.append(line)
    if fence is not None:
        found.append(_block(fence, lines))
    return found


def _block(fence: re.Match[str], lines: list[str]) -> FencedCode:
    indent = len(fence[1])
    words = fence[3].split()
    return FencedCode(words[0] if words else "", "\n".join(_outdented(line, indent) for line in lines))


def _outdented(line: str, columns: int) -> str:
    return line[min(columns, len(line) - len(line.lstrip(" \t"))) :]
