"""Answers of extensions to hooks: which are accepted, and what is wrong with the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tau.errors import ExtensionFailure
from tau.records.messages import Text
from tau.runtime.extensions import hook_answers as answers
from tau.runtime.extensions.hook_answers import check_compaction, read_bash_result, read_blocks, read_custom

Check = Callable[[Any], None]

IMAGE = {"type": "image", "data": "AA==", "mimeType": "image/png"}
compaction = check_compaction(lambda id: id == "known")

TOOL_CALL = 'tool_call: expected None or a dict with "block", "reason", "input", but got'

VALID: list[tuple[Check, Any]] = [
    (answers.check_input, None),
    (answers.check_input, {"images": [IMAGE], "more": 1}),
    (answers.check_start, {"message": {"customType": "note", "content": "hello"}, "systemPrompt": "be brief"}),
    (answers.check_context, {"messages": [{"role": "user", "content": "hello", "timestamp": 1}]}),
    (answers.check_context, {"messages": [{"role": "of another program"}]}),
    (answers.check_headers, {"headers": {"x-one": "1", "x-two": None}}),
    (answers.check_body, {"model": "demo"}),
    (answers.check_tool_call, {}),
    (answers.check_tool_call, {"block": False}),
    (answers.check_tool_call, {"block": None, "reason": None, "input": None}),
    (answers.check_tool_call, {"block": True, "reason": "no", "terminate": True}),
    (answers.check_tool_call, {"input": {"command": "ls"}}),
    (answers.check_result, {"content": "text", "isError": False}),
    (answers.check_tree, {"summary": {"summary": "short"}, "label": "here"}),
    (answers.check_bash, {"result": {"output": "x", "exitCode": 0}}),
    (compaction, {"compaction": {"summary": "short", "firstKeptEntryId": "known"}}),
    (compaction, {"cancel": True}),
]

INVALID: list[tuple[Check, Any, str]] = [
    (answers.check_input, {"images": ["none"]}, "images: "),
    (answers.check_start, {"message": "hello"}, "message: expected an object"),
    (answers.check_start, {"systemPrompt": 1}, "systemPrompt: "),
    (answers.check_context, {"messages": "none"}, "messages: expected a list"),
    (answers.check_context, {"messages": [{"role": "user"}]}, "messages[0]: "),
    (answers.check_headers, {"headers": {"x-one": 1}}, "headers: "),
    (answers.check_body, "none", "payload: "),
    (answers.check_tool_call, False, f"{TOOL_CALL} False"),
    (answers.check_tool_call, True, f"{TOOL_CALL} True"),
    (answers.check_tool_call, "no bash please", f"{TOOL_CALL} str"),
    (answers.check_tool_call, {"blok": True}, f'{TOOL_CALL} one with "blok"'),
    (answers.check_tool_call, {"reason": "no"}, f'{TOOL_CALL} one with "reason"'),
    (answers.check_tool_call, {"input": "ls"}, "tool_call: input: expected a dict but got str"),
    (answers.check_result, {"isError": "no"}, "isError: "),
    (answers.check_tree, {"summary": "short"}, "summary: "),
    (answers.check_bash, False, 'user_bash: expected None or a dict with "result", but got False'),
    (answers.check_bash, {"block": True}, 'user_bash: expected None or a dict with "result", but got one with "block"'),
    (answers.check_bash, {"operations": {}}, "operations: not supported here"),
    (answers.check_bash, {"result": "x"}, "result: expected an object"),
    (answers.check_bash, {"result": {"exitCode": "0"}}, "result.exitCode: expected int"),
    (compaction, {"compaction": {"summary": "short"}}, "compaction: "),
    (
        compaction,
        {"compaction": {"summary": "short", "firstKeptEntryId": "x"}},
        "compaction.firstKeptEntryId: there is no such entry",
    ),
]


@pytest.mark.parametrize(("check", "answer"), VALID)
def test_a_valid_answer_is_accepted(check: Check, answer: Any) -> None:
    check(answer)


@pytest.mark.parametrize(("check", "answer", "why"), INVALID)
def test_an_invalid_answer_is_refused_with_the_place(check: Check, answer: Any, why: str) -> None:
    with pytest.raises(ExtensionFailure) as refused:
        check(answer)
    assert str(refused.value).startswith(why)


def test_text_and_content_blocks_are_the_same_result() -> None:
    assert read_blocks("text") == read_blocks([{"type": "text", "text": "text"}]) == [Text("text")]


def test_a_custom_message_is_shown_unless_it_says_otherwise() -> None:
    shown = read_custom({"customType": "note", "content": "hello"}, 5)
    assert (shown.custom_type, shown.content, shown.display, shown.timestamp) == ("note", "hello", True, 5)
    assert not read_custom({"customType": "note", "content": "hello", "display": False}, 5).display


def test_output_of_a_command_without_streams_is_its_stdout() -> None:
    result = read_bash_result({"output": "x", "exitCode": None})
    assert (result.output, result.stdout, result.stderr, result.cancelled) == ("x", "x", "", False)
