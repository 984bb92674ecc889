from __future__ import annotations

import pytest

from support.loop_kit import assistant, call, user
from tau.records.base import BadRecord, encode, wire_json
from tau.records.events import AgentEnd, Event, MessageEnd, TurnEnd, TurnStart, event_json
from tau.records.lines import read_message
from tau.records.messages import (
    Assistant,
    BashExecution,
    BranchSummary,
    CompactionSummary,
    Custom,
    Image,
    Other,
    StoredMessage,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    UsageCost,
    User,
)

ANSWER = Assistant(
    [Thinking("Hm", "sig"), Text("Hello"), ToolCall("1", "ls", {"path": "."})],
    "anthropic-messages",
    "lab",
    "m-1",
    Usage(1, 2, 3, 4, 10, UsageCost(0.5, 0, 0, 0, 0.5)),
    "toolUse",
    5,
)
MESSAGES = [
    (User("hi", 1), b'{"role":"user","content":"hi","timestamp":1}'),
    (
        User([Text("look"), Image("QUJD", "image/png")], 1),
        b'{"role":"user","content":[{"type":"text","text":"look"},'
        b'{"type":"image","data":"QUJD","mimeType":"image/png"}],"timestamp":1}',
    ),
    (
        ANSWER,
        b'{"role":"assistant","content":[{"type":"thinking","thinking":"Hm","thinkingSignature":"sig"},'
        b'{"type":"text","text":"Hello"},{"type":"toolCall","id":"1","name":"ls","arguments":{"path":"."}}],'
        b'"api":"anthropic-messages","provider":"lab","model":"m-1","usage":{"input":1,"output":2,"cacheRead":3,'
        b'"cacheWrite":4,"totalTokens":10,"cost":{"input":0.5,"output":0,"cacheRead":0,"cacheWrite":0,'
        b'"total":0.5}},"stopReason":"toolUse","timestamp":5}',
    ),
    (
        ToolResult("1", "ls", [Text("a")], {}, True, 6),
        b'{"role":"toolResult","toolCallId":"1","toolName":"ls","content":[{"type":"text","text":"a"}],'
        b'"details":{},"isError":true,"timestamp":6}',
    ),
    (
        ToolResult("1", "ls", []),
        b'{"role":"toolResult","toolCallId":"1","toolName":"ls","content":[],"isError":false,"timestamp":0}',
    ),
    (
        BashExecution("ls", "a\n", 0, timestamp=7),
        b'{"role":"bashExecution","command":"ls","output":"a\\n","exitCode":0,"cancelled":false,"truncated":false,'
        b'"fullOutputPath":null,"timestamp":7}',
    ),
    (
        BashExecution("sleep 9", "", cancelled=True),
        b'{"role":"bashExecution","command":"sleep 9","output":"","cancelled":true,"truncated":false,'
        b'"fullOutputPath":null,"timestamp":0}',
    ),
    (
        Custom("note", "n", False),
        b'{"role":"custom","customType":"note","content":"n","display":false,"timestamp":0}',
    ),
    (BranchSummary("s", "id"), b'{"role":"branchSummary","summary":"s","fromId":"id","timestamp":0}'),
    (CompactionSummary("s", 9), b'{"role":"compactionSummary","summary":"s","tokensBefore":9,"timestamp":0}'),
]


@pytest.mark.parametrize(("message", "data"), MESSAGES, ids=lambda given: type(given).__name__)
def test_every_message_is_written_and_read_as_documented(message: StoredMessage, data: bytes) -> None:
    assert encode(message) == data
    assert read_message(data) == message


def test_a_message_of_a_newer_version_keeps_what_we_do_not_know() -> None:
    data = b'{"role":"user","content":"hi","timestamp":1,"mood":{"of":"tomorrow"}}'
    message = read_message(data)
    assert message == User("hi", 1)
    assert wire_json(message) == data
    assert event_json(MessageEnd(message)) == b'{"type":"message_end","message":%b}' % data


def test_a_message_of_an_unknown_role_is_kept_and_passed_on() -> None:
    data = b'{"role":"system","content":"be nice","sections":{}}'
    message = read_message(data)
    assert message == Other("system")
    assert wire_json(message) == data


@pytest.mark.parametrize("data", [b"[]", b"{}", b'{"role":5}', b'{"role":"user"', b"null"])
def test_what_has_no_role_is_no_message(data: bytes) -> None:
    with pytest.raises(BadRecord):
        read_message(data)


def test_usage_without_totals_is_read() -> None:
    data = (
        b'{"role":"assistant","content":[],"api":"a","provider":"p","model":"m","usage":{"input":1,"output":2},'
        b'"stopReason":"stop","timestamp":0}'
    )
    assert read_message(data) == Assistant([], "a", "p", "m", Usage(1, 2), "stop", 0)


def test_an_answer_knows_its_text_its_calls_and_whether_it_failed() -> None:
    assert (ANSWER.text, ANSWER.tool_calls, ANSWER.failed) == ("Hello", [ToolCall("1", "ls", {"path": "."})], False)
    assert [assistant(stop=stop).failed for stop in ("stop", "length", "toolUse", "error", "aborted")] == [
        False,
        False,
        False,
        True,
        True,
    ]


@pytest.mark.parametrize(
    "event",
    [
        AgentEnd([user("hi"), assistant("a\u2028b", call("ls"))], will_retry=True),
        MessageEnd(user("\ud800")),
        AgentEnd([]),
        TurnStart(),
        TurnEnd(assistant("done"), [ToolResult("1", "ls", [Text("a")], {})]),
    ],
)
def test_an_event_with_spliced_messages_is_what_it_would_be_if_encoded(event: Event) -> None:
    assert event_json(event) == encode(event)
