"""Styled lines: everything that is drawn is a sequence of these.

A style is a string of words: at most one theme role for the foreground ("accent"), at most one for the background
with "bg:" before it ("bg:userMessageBg"), attributes (ATTRIBUTES), and the colours of command output ("fg=9",
"fg=#ff8800", "bg=4"). Words are in any order; "" is the terminal's default. styles.py turns a style into SGR.

The text of a span contains no control characters: whatever makes a span from text of a model, a tool, a file or an
extension cleans it first (core/text/terminal_text.py), and the painter drops what is left.
"""

from __future__ import annotations

from typing import NamedTuple

ATTRIBUTES = frozenset({"bold", "dim", "italic", "underline", "strike", "inverse"})


class Span(NamedTuple):
    text: str
    style: str = ""
    link: str = ""  # target of a hyperlink (OSC 8), where the terminal supports it


Line = tuple[Span, ...]  # without a line break, and not wider than the width it was made for


def line(text: str, style: str = "") -> Line:
    """A line of one span; an empty text makes an empty line."""
    return (Span(text, style),) if text else ()


def plain_text(spans: Line) -> str:
    return "".join([span.text for span in spans])
