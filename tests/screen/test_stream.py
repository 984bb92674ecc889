"""Streamed Markdown: the same rows for every cut, no flicker, bounded cost."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tau.screen.cells import line_width
from tau.screen.lines import Line, Span, plain_text
from tau.screen.look import Look
from tau.screen.stream import MarkdownStream, markdown_rows, piece_rows

LOOK = Look(60)

SAMPLE = """# Title

Some **bold** and *it* and `code` with [link](http://x.y/z).
Second line

1. one
2. two
   - nested
   - [x] task

3. three
- a
- b

| a | b longer |
|---|---:|
| 1 | 2 |
| some very long cell with many words in it that wraps around | and another one here, for good measure |

```py
def f():

    return 1
```
> quote
> more

    indented

***
End & fin.
"""


def texts(rows: Iterable[Line]) -> list[str]:
    return [plain_text(row) for row in rows]


def streamed(pieces: Iterable[str], look: Look = LOOK) -> list[str]:
    """The rows of a text that arrives in pieces, with a frame after each."""
    stream = MarkdownStream()
    rows: list[Line] = []
    for piece in pieces:
        stream.feed(piece)
        rows += [row for part in stream.take() for row in piece_rows(part, look)]
        stream.tail(look)
    stream.finish()
    rows += [row for part in stream.take() for row in piece_rows(part, look)]
    return texts(rows)


def frames(text: str, look: Look = LOOK) -> list[list[str]]:
    """Everything that is shown after each character."""
    stream = MarkdownStream()
    rows: list[Line] = []
    shown = []
    for character in text:
        stream.feed(character)
        rows += [row for part in stream.take() for row in piece_rows(part, look)]
        shown.append(texts(rows + stream.tail(look)))
    return shown


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_the_rows_of_a_streamed_answer_are_those_of_the_whole(size: int) -> None:
    pieces = [SAMPLE[at : at + size] for at in range(0, len(SAMPLE), size)]
    assert streamed(pieces) == texts(markdown_rows(SAMPLE, LOOK))


MARKUP = st.sampled_from(
    [
        *"#>-+*_`~|:=[]()<>&!\\ \n\n\n\t1.)x",
        *(
            "```",
            "~~~",
            "**",
            "***",
            "```py\n",
            "\n```\n",
            "\n~~~\n",
            "- ",
            "1. ",
            "2) ",
            "    ",
            "word ",
            "\n\n",
            "\r\n",
        ),
        *(
            "| a | b |\n|---|---|\n",
            "\n|---|---|\n",
            " | ",
            "\n---\n",
            "\n===\n",
            "> ",
            "- [x] ",
            "<div>",
            "<!--",
            "-->",
            "  \n",
        ),
    ]
)


@settings(deadline=None, max_examples=300)
@given(
    st.lists(MARKUP, max_size=60).map("".join),
    st.lists(st.integers(1, 9), min_size=1, max_size=8),
    st.sampled_from([0, 12, 60]),
)
def test_any_cut_of_any_text_gives_the_same_rows(text: str, sizes: list[int], width: int) -> None:
    pieces: list[str] = []
    at = 0
    while at < len(text):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(text[at : at + size])
        at += size
    assert streamed(pieces, Look(width)) == texts(markdown_rows(text, Look(width)))


@pytest.mark.parametrize("width", [0, 8, 12, 33, 60])
def test_no_row_is_wider_than_the_screen(width: int) -> None:
    for row in markdown_rows(SAMPLE, Look(width)):
        assert not width or line_width(row) <= width


# An unfinished fence, table or emphasis never flickers between two forms


@pytest.mark.parametrize(
    "text",
    [
        SAMPLE,
        "para\n- item\n",
        "a **b *c* d** e\n",
        "use `a[0]` and array[1] or [x](http://y.z/q) ok ![pic](u) <http://a.b> &amp; &lt; \\* x\n",
        "~~strike~~ and __bold__ and snake_case_name and 2 * 3 * 4\n",
        "1. a\n   ```py\n   x\n   ```\n2. b\n",
        "> q\n> ```\n> x\n> ```\n",
        "- [ ] t\n- [x] u\n",
        "***bold it*** x\n",
        "text ``a ` b`` z\n",
        "| a | b |\n|---|---|\n| `x` | **y** |\n\nend",
        "#hash no heading\n####### seven\n",
        "* a\n* b\n\n  para in b\n\n      code\n",
        "**Note:** x\n\n**A**: b\n",
        "-5 degrees\n- 5\n1984 was\n\n-- dash\n\n+1 yes\n\n=> arrow\n\n*** x ***\n",
        "**bold\nover lines** x\n",
        "```\ncode `` with ` ticks\n``` no end\n```\nafter\n",
        "~~~py\n~~\n~~~\n",
    ],
)
def test_what_is_shown_of_an_unfinished_text_only_grows(text: str) -> None:
    before = ""
    for rows in frames(text):
        now = re.sub(r"[\s│─┼`]", "", "".join(rows))
        assert now.startswith(before)
        before = now


def test_emphasis_has_its_style_before_it_is_closed() -> None:
    stream = MarkdownStream()
    stream.feed("some **bold and `co")
    stream.take()
    [row] = stream.tail(LOOK)
    assert row == (Span("some "), Span("bold and ", "bold"), Span("co", "bold mdCode"))


# What the pieces look like


def test_headings_lists_quotes_rules_and_code() -> None:
    assert texts(markdown_rows(SAMPLE, LOOK)) == [
        "Title",
        "",
        "Some bold and it and code with link (http://x.y/z).",
        "Second line",
        "",
        "1. one",
        "2. two",
        "   - nested",
        "   - [x] task",
        "",
        "3. three",
        "- a",
        "- b",
        "",
        "a                            │                      b longer",
        "─────────────────────────────┼──────────────────────────────",
        "1                            │                             2",
        "some very long cell with     │     and another one here, for",
        "many words in it that wraps  │                  good measure",
        "around                       │ ",
        "",
        "```py",
        "def f():",
        "",
        "    return 1",
        "```",
        "│ quote",
        "│ more",
        "",
        "indented",
        "",
        "─" * 60,
        "End & fin.",
    ]


def test_plain_text_has_no_decoration() -> None:
    assert texts(markdown_rows(SAMPLE, Look(0))) == [
        "# Title",
        "",
        "Some bold and it and code with link (http://x.y/z).",
        "Second line",
        "",
        "1. one",
        "2. two",
        "   - nested",
        "   - [x] task",
        "",
        "3. three",
        "- a",
        "- b",
        "",
        "a: 1",
        "b longer: 2",
        "",
        "a: some very long cell with many words in it that wraps around",
        "b longer: and another one here, for good measure",
        "",
        "def f():",
        "",
        "    return 1",
        "> quote",
        "> more",
        "",
        "indented",
        "",
        "---",
        "End & fin.",
    ]


def test_links_have_their_address_in_the_text_or_in_the_span() -> None:
    text = "see [docs](https://a.b/c), <https://d.e>, [file](src/x.py) and [bad](javascript:x)"
    [row] = markdown_rows(text, Look(120))
    assert plain_text(row) == ("see docs (https://a.b/c), https://d.e, file (src/x.py) and bad (javascript:x)")
    [row] = markdown_rows(text, Look(120, hyperlinks=True))
    assert plain_text(row) == "see docs, https://d.e, file (src/x.py) and bad (javascript:x)"
    assert {span.link for span in row} == {"", "https://a.b/c", "https://d.e"}


def test_html_is_text() -> None:
    assert texts(markdown_rows("a <b>x</b>\n\n<div>\n*y*\n</div>", LOOK)) == [
        "a <b>x</b>",
        "",
        "<div>",
        "*y*",
        "</div>",
    ]


def test_numbers_of_a_list_go_on_as_in_markdown() -> None:
    assert texts(markdown_rows("1. a\n1. b\n1. c\n\ntext\n\n7) x\n8) y", LOOK)) == [
        "1. a", "2. b", "3. c", "", "text", "", "7. x", "8. y",
    ]  # fmt: skip


def test_reference_definitions_are_not_lost() -> None:
    assert "http" in "".join(texts(markdown_rows("[a]\n\n[a]: http://x.y\n", LOOK)))


# Tables wider than the screen


WIDE = (
    "| name | description | state |\n|---|---|---|\n| alpha | a rather long description of it | done |\n| b | x | y |\n"
)


@pytest.mark.parametrize("width", [52, 40, 28, 24, 15, 9])
def test_tables_wider_than_the_screen_wrap_then_shrink_then_become_blocks(width: int) -> None:
    rows = texts(markdown_rows(WIDE, Look(width)))
    assert all(len(row) <= width for row in rows)
    words = " ".join(rows)
    if width >= 28:
        assert "─┼─" in words
        for word in ("alpha", "rather", "description", "done"):
            assert word in words
    if width in (15, 9):
        assert rows[0].startswith("name: ") or rows[0] == "name:"
        assert "─┼─" not in words


def test_the_widths_of_a_long_table_are_fixed_after_forty_rows() -> None:
    text = "| n | text |\n|---|---|\n" + "".join(f"| {n} | row {n} |\n" for n in range(60)) + f"| x | {'long ' * 9} |\n"
    rows = texts(markdown_rows(text, LOOK))
    assert rows[:3] == ["n   │ text", "────┼───────", "0   │ row 0"]
    assert rows[61] == "59  │ row 59"
    assert rows[62:] == ["x   │ long"] + ["    │ long"] * 8
    assert streamed([text[at : at + 5] for at in range(0, len(text), 5)]) == rows


# Cuts of what is too long


def words(rows: Iterable[str]) -> list[str]:
    return " ".join(rows).split()


def test_a_paragraph_of_any_length_is_shown_whole() -> None:
    text = " ".join(f"word{number}" for number in range(20_000))
    assert words(streamed([text[at : at + 1000] for at in range(0, len(text), 1000)])) == text.split()


def test_a_megabyte_on_one_line_is_shown_whole() -> None:
    rows = streamed(["x" * 50_000] * 20)
    assert "".join(rows) == "x" * 1_000_000


def test_an_item_with_long_code_keeps_its_indentation() -> None:
    code = "".join(f"  line {number} of the code\n" for number in range(1000))
    rows = streamed(["- item\n\n  ```\n", code, "  ```\n- next\n"])
    lines = [row for row in rows if row and "```" not in row]
    assert lines[1:-1] == [f"  line {number} of the code" for number in range(1000)]
    assert (lines[0], lines[-1]) == ("- item", "- next")


def test_code_of_any_length_settles_line_by_line() -> None:
    stream = MarkdownStream()
    stream.feed("```py\n")
    for number in range(2000):
        stream.feed(f"x = {number}\n")
        assert len(stream.take()) == 1
        assert stream.tail(LOOK) == []
