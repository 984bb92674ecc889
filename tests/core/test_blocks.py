"""Content blocks of a streamed message: the JSON of every earlier moment, and what is left when they close."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tau.core.agent.blocks import Block, TextBlock, ThinkingBlock, ToolCallBlock
from tau.records.base import UNSET, parse
from tau.records.deltas import TextDelta, TextEnd, ThinkingDelta, ThinkingEnd, ToolCallDelta, ToolCallEnd
from tau.records.messages import Text, Thinking, ToolCall
from tau.wire.unfinished import PartialJson


def shown(block: Block, mark: tuple[int, int, bytes]) -> Any:
    return parse(block.json_at(*mark[1:]))


def test_text_is_shown_as_it_was_at_each_mark() -> None:
    block = TextBlock(3)
    marks = [block.mark()]
    for piece in ('say "', "é\u2028", "😀"):
        assert block.add(piece) == TextDelta(3, piece)
        marks.append(block.mark())
    assert [shown(block, mark)["text"] for mark in marks] == ["", 'say "', 'say "é\u2028', 'say "é\u2028😀']
    assert block.content() == Text('say "é\u2028😀')


def test_closed_text_has_its_signature() -> None:
    block = TextBlock(0)
    block.add("hello")
    block.signature += ["si", "gned"]
    assert block.close() == TextEnd(0, "hello")
    assert block.content() is block.sealed
    assert block.sealed == Text("hello", "signed")


def test_thinking_can_be_signed_from_its_start() -> None:
    block = ThinkingBlock(1, "signed")
    assert block.add("hm") == ThinkingDelta(1, "hm")
    assert shown(block, block.mark()) == {"type": "thinking", "thinking": "hm", "thinkingSignature": "signed"}
    assert block.content() == Thinking("hm", "signed")
    assert block.close() == ThinkingEnd(1, "hm")
    assert block.sealed == Thinking("hm", "signed", UNSET)


def test_redacted_thinking_says_so_once_it_is_closed() -> None:
    block = ThinkingBlock(0, redacted=True)
    block.signature.append("payload")
    block.close()
    assert block.sealed == Thinking("", "payload", True)


def test_arguments_are_shown_as_far_as_they_can_be_parsed() -> None:
    block = ToolCallBlock(2, "call_1", "bash", PartialJson())
    assert block.content() == ToolCall("call_1", "bash", {})
    marks = [block.mark()]
    for piece in ('{"comm', 'and": "echo é', '\u2028"', "}"):
        assert block.add(piece) == ToolCallDelta(2, piece)
        marks.append(block.mark())
    assert [shown(block, mark)["arguments"] for mark in marks] == [
        {},
        {},
        {"command": "echo é"},
        {"command": "echo é\u2028"},
        {"command": "echo é\u2028"},
    ]
    assert "\u2028".encode() not in block.json_at(*marks[-1][1:])
    assert block.content() == ToolCall("call_1", "bash", {"command": "echo é\u2028"})
    end = block.close()
    assert end == ToolCallEnd(2, ToolCall("call_1", "bash", {"command": "echo é\u2028"}))
    assert not block.unreadable


@pytest.mark.parametrize(
    ("text", "arguments", "unreadable"),
    [
        ("", {}, False),
        ("  ", {}, False),
        ('{"a": 1}', {"a": 1}, False),
        ('{"a": 1', {"a": 1}, True),
        ('{"a": 1} more', {}, True),
        ("[1]", {}, True),
        ("nonsense", {}, True),
    ],
)
def test_a_call_whose_arguments_are_no_object_is_unreadable(text: str, arguments: Any, unreadable: bool) -> None:
    block = ToolCallBlock(0, "call_1", "bash", PartialJson())
    for character in text:
        block.add(character)
        assert json.loads(block.json_at(*block.mark()[1:]))["type"] == "toolCall"
    block.close()
    assert block.unreadable is unreadable
    if not unreadable:
        assert block.sealed == ToolCall("call_1", "bash", arguments)


def test_shown_arguments_are_one_line() -> None:
    block = ToolCallBlock(0, "call_1", "bash", PartialJson())
    pieces = ["{\n", '  "command"\r\n:', '\n"é', ' two"\n}']
    for piece in pieces:
        block.add(piece)
        line = block.json_at(*block.mark()[1:])
        assert not {*b"\n\r"} & {*line}
        assert isinstance(parse(line)["arguments"], dict)
    assert parse(line)["arguments"] == {"command": "é two"}
