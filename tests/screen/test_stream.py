"""Streamed Markdown: the same rows for every cut, no flicker, bounded cost."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tau.screen.lines import Line, plain_text
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
        "```",
        "~~~",
        "**",
        "| a | b |\n|---|---|\n",
        "- ",
        "1. ",
        "    ",
        "word ",
        "\n\n",
    ]
)


@settings(deadline=None, max_examples=300)
@given(
    st.lists(MARKUP, max_size=60).map("".join),
    st.lists(st.integers(1, 9), min_size=1, max_size=8),
    st.sampled_from([0, 12, 60]),
)
def test_any_cut_of_any_text_gives_the_same_rows(text: str, sizes: list[int], width: int) -> None:
    pieces, at = [], 0
    while at < len(text):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(text[at : at + size])
        at += size
    assert streamed(pieces, Look(width)) == texts(markdown_rows(text, Look(width)))
