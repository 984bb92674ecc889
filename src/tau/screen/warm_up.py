"""Loads what the first frame does not need: the Markdown parser, a lexer, the tables of widths.

The front end calls this after the first frame, so that the first answer does not wait for it.
"""

from __future__ import annotations

from tau.core.text.highlight import Highlighter
from tau.core.text.markup import parse_markdown
from tau.screen.cells import text_width
from tau.screen.session_events import SessionEvents  # noqa: F401

LANGUAGES = ("python", "bash")  # each takes memory, so no more than are likely


def warm_up() -> None:
    parse_markdown("*x*")
    for language in LANGUAGES:
        Highlighter(language).line("x")
    text_width("é")
