"""The code blocks of an answer, as /copy code takes them."""

from __future__ import annotations

import pytest

from tau.core.text.code_blocks import FencedCode, fenced_code

pytestmark = pytest.mark.unit


def test_code_blocks_are_found_in_order() -> None:
    text = "See:\n\n```python title=a\nx = 1\n\ny = 2\n```\nand\n~~~\n```\n~~~\n"
    assert fenced_code(text) == [FencedCode("python", "x = 1\n\ny = 2"), FencedCode("", "```")]


def test_a_code_block_in_a_list_loses_the_indentation_of_its_fence() -> None:
    assert fenced_code("1. Run\n   ```sh\n   if x; then\n     y\n  z\n   ```\n") == [
        FencedCode("sh", "if x; then\n  y\nz")
    ]


def test_a_longer_fence_contains_shorter_ones() -> None:
    assert fenced_code("````md\n```\nx\n```\n````") == [FencedCode("md", "```\nx\n```")]


def test_an_unfinished_code_block_ends_with_the_text_and_inline_code_is_none() -> None:
    assert fenced_code("``` no `` fence ```\n```\nx") == [FencedCode("", "x")]


def test_a_long_answer_is_searched_as_well() -> None:
    assert fenced_code("word " * 10_000 + "\n```\nx\n```") == [FencedCode("", "x")]
