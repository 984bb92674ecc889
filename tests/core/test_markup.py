"""Markdown as values."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tau.core.text.markup import (
    MAX_CHARACTERS,
    CodeBlock,
    Heading,
    Inline,
    ListBlock,
    ListItem,
    Paragraph,
    Quote,
    Rule,
    Table,
    parse_markdown,
)


def paragraph(text: str) -> Paragraph:
    return Paragraph((Inline(text),))


def test_blocks() -> None:
    text = "## T\n\n> q\n\n---\n\n```py x\na\n\nb\n```\n\n    c\n"
    assert parse_markdown(text) == (
        Heading(2, (Inline("T"),)),
        Quote((paragraph("q"),)),
        Rule(),
        CodeBlock("py x", "a\n\nb"),
        CodeBlock("", "c", fenced=False),
    )


def test_inline_markup() -> None:
    text = "a **b *c*** ~~d~~ `e` [f](u) <http://g> ![h](i) ![](j)\nk  \nl <b>"
    [block] = parse_markdown(text)
    assert block == Paragraph(
        (
            Inline("a "),
            Inline("b ", "bold"),
            Inline("c", "bold italic"),
            Inline(" "),
            Inline("d", "strike"),
            Inline(" "),
            Inline("e", "code"),
            Inline(" "),
            Inline("f", "", "u"),
            Inline(" "),
            Inline("http://g", "", "http://g"),
            Inline(" "),
            Inline("h", "", "i"),
            Inline(" "),
            Inline("picture", "", "j"),
            Inline("\n"),
            Inline("k"),
            Inline("\n", "hard"),
            Inline("l "),
            Inline("<b>"),
        )
    )


def test_lists_nest_and_have_tasks() -> None:
    assert parse_markdown("3. a\n   - [x] b\n   - [ ] c\n4. d\n\n   e") == (
        ListBlock(
            3,
            (
                ListItem(
                    None,
                    (
                        paragraph("a"),
                        ListBlock(None, (ListItem(True, (paragraph("b"),)), ListItem(False, (paragraph("c"),)))),
                    ),
                ),
                ListItem(None, (paragraph("d"), paragraph("e"))),
            ),
        ),
    )


def test_tables_have_alignments_and_cells() -> None:
    assert parse_markdown("| a | b |\n|:-:|--:|\n| *c* |\n") == (
        Table(("center", "right"), ((Inline("a"),), (Inline("b"),)), (((Inline("c", "italic"),), ()),)),
    )


def test_definitions_of_references_are_text() -> None:
    [block] = parse_markdown("[a]: http://b\n")
    assert "".join(inline.text for inline in _inlines(block)) == "[a]: http://b"


def test_references_are_resolved_on_request() -> None:
    assert parse_markdown("[a]\n\n[a]: http://b\n", references=True) == (Paragraph((Inline("a", "", "http://b"),)),)


@pytest.mark.parametrize("text", ["> " * 200 + "x", "*" * 5000 + "x", "[" * 5000, "- " * 300 + "x"])
def test_deep_and_hostile_text_is_shown_as_it_is(text: str) -> None:
    assert "".join(inline.text for block in parse_markdown(text) for inline in _inlines(block)).count("x") <= 1


def _inlines(block: object) -> tuple[Inline, ...]:
    return block.content if isinstance(block, Paragraph | Heading) else ()


def test_a_text_that_is_too_long_is_not_parsed() -> None:
    [block] = parse_markdown("*x* " * MAX_CHARACTERS)
    assert isinstance(block, CodeBlock)
    assert block.text.startswith("*x*")


@pytest.mark.process
def test_plain_text_loads_no_parser() -> None:
    code = """
import sys
from tau.records.events import MessageStart, MessageUpdate
from tau.records.deltas import TextDelta
from tau.records.messages import Assistant, Usage, User
from tau.screen.footer import FooterState, footer_lines
from tau.screen.transcript import Transcript
transcript = Transcript()
transcript.apply(MessageStart(User("hello there.", 0)), 0)
transcript.apply(MessageStart(Assistant([], "a", "p", "m", Usage(), "stop", 0)), 0)
transcript.apply(MessageUpdate(TextDelta(0, "Plain words, and more.\\n\\nA second paragraph")), 0)
transcript.add_notice("notice")
transcript.rows(0, 80, 0)
footer_lines(FooterState("~/x", model="m"), 80)
print([name for name in ("pyromark", "pygments", "wcwidth") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
