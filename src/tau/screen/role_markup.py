"""Lines of extensions: text with tags for theme roles and attributes, and no escape sequences.

    [accent]3 of 5[/] done, [bold error]1 failed[/]

A tag names roles and attributes; `[/]` ends it, and tags nest. `[[` is a bracket. What is not a tag is text: `[x]`
stays `[x]`. Colours of SGR sequences are kept; other control characters are removed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tau.screen.cells import clip_line
from tau.screen.lines import ATTRIBUTES, Line, Span, line
from tau.screen.safe_text import output_lines
from tau.screen.themes import ROLES

MAX_LINE_CHARACTERS = 4000
MAX_DEPTH = 16
_TAG = re.compile(r"\[\[|\[/\]|\[[A-Za-z:]+(?: [A-Za-z:]+){0,7}\]")


def styled_line(text: str, style: str = "") -> Line:
    """One line; line breaks become spaces. `style` applies where no tag does."""
    text = " ".join(text[:MAX_LINE_CHARACTERS].splitlines())
    spans: list[Span] = []
    styles = [style]
    at = 0
    for found in _TAG.finditer(text):
        tag = found[0]
        if tag not in ("[[", "[/]") and not _is_style(tag[1:-1]):
            continue
        spans += _plain(text[at : found.start()], styles[-1])
        at = found.end()
        if tag == "[[":
            spans += _plain("[", styles[-1])
        elif tag == "[/]":
            if len(styles) > 1:
                styles.pop()
        elif len(styles) < MAX_DEPTH:
            styles.append(_combined(styles[-1], tag[1:-1]))
    spans += _plain(text[at:], styles[-1])
    return tuple(spans)


def styled_lines(texts: Sequence[str], width: int, max_lines: int, style: str = "") -> list[Line]:
    """At most `max_lines` lines, each cut to the width. If there are more, the last line says how many."""
    fits = len(texts) <= max_lines
    shown = texts if fits else texts[: max_lines - 1]
    lines = [clip_line(styled_line(text, style), width) for text in shown]
    return lines if fits else [*lines, clip_line(line(f"+{len(texts) - len(shown)} more", "dim"), width)]


def _plain(text: str, style: str) -> Line:
    return output_lines(text, style)[0] if text else ()


def _is_style(words: str) -> bool:
    return all(word in ATTRIBUTES or word.removeprefix("bg:") in ROLES for word in words.split())


def _combined(outer: str, inner: str) -> str:
    """The inner tag replaces colours of the outer one, and adds its attributes."""
    words = inner.split()
    colors = [word.startswith("bg:") for word in words if word not in ATTRIBUTES]
    kept = [word for word in outer.split() if word in ATTRIBUTES or word.startswith("bg:") not in colors]
    return " ".join(dict.fromkeys([*kept, *words]))
