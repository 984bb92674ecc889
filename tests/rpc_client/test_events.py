"""Lines of agents of many versions, read as records, with nothing lost."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tau import events
from tau.client.events import read_event
from tau.client.replies import BadReply, read, read_messages, read_or_none
from tau.events import UNSET, raw, type_of
from tau.records.replies import BashResult, Cycled, LastText, SessionStats

ASSISTANT: dict[str, Any] = {
    "role": "assistant",
    "content": [{"type": "toolCall", "id": "c1", "name": "bash", "arguments": {}}],
    "api": "a",
    "provider": "p",
    "model": "m",
    "usage": {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0},
    "stopReason": "stop",
    "timestamp": 1,
}


def heard(**value: Any) -> events.RpcEvent:
    event = read_event(value["type"], json.dumps(value).encode())
    assert raw(event) == value
    assert type_of(event) == value["type"]
    return event


def test_known_events_are_records_and_unknown_fields_are_kept() -> None:
    assert heard(type="auto_retry_end", success=True, attempt=2, new=1) == events.AutoRetryEnd(True, 2)


def test_unknown_events_pass_through() -> None:
    value = {"type": "something_new", "field": [1, None]}
    assert heard(**value) == events.UnknownEvent("something_new", value)


def test_known_events_of_a_shape_that_is_not_known_pass_through_as_well() -> None:
    assert isinstance(heard(type="tool_execution_end", result="a string"), events.UnknownEvent)
    assert isinstance(heard(type="message_start", message="?"), events.UnknownEvent)
    assert isinstance(heard(type="agent_end", messages=[1]), events.UnknownEvent)


def test_older_pis_do_not_name_the_tool_at_the_start_of_a_call_but_the_message_does() -> None:
    delta = {"type": "toolcall_start", "contentIndex": 0, "partial": ASSISTANT}
    event = heard(type="message_update", message=ASSISTANT, assistantMessageEvent=delta)
    assert isinstance(event, events.MessageUpdate)
    assert isinstance(call := event.assistant_message_event, events.ToolCallStart)
    assert (call.id, call.tool_name) == ("c1", "bash")


def test_newer_pis_say_pending_of_an_answer_that_begins() -> None:
    event = heard(type="message_start", message={**ASSISTANT, "stopReason": "pending"})
    assert isinstance(event, events.MessageStart) and isinstance(event.message, events.Assistant)


def test_messages_of_unknown_roles_stand_among_the_known() -> None:
    event = heard(type="agent_end", messages=[{"role": "system", "content": "x"}, ASSISTANT], willRetry=False)
    assert isinstance(event, events.AgentEnd)
    assert [type(message) for message in event.messages] == [events.Other, events.Assistant]


def test_a_compaction_without_result_has_none() -> None:
    event = heard(type="auto_compaction_end", aborted=True, willRetry=False)
    assert event == events.AutoCompactionEnd(None, True, False)


def test_half_a_character_is_no_reason_to_fail() -> None:
    line = b'{"type":"extension_error","extensionPath":"\\ud83d","event":"e","error":"x"}'
    assert raw(read_event("extension_error", line))["extensionPath"] == "\ud83d"


def test_dialogs_and_notices_are_events() -> None:
    event = heard(type="extension_ui_request", id="1", method="notify", message="hi", more=1)
    assert event == events.Notify("1", "hi")
    assert isinstance(heard(type="extension_ui_request", id="1", method="hologram"), events.UnknownEvent)


def test_what_a_reply_leaves_out_is_absent_where_that_is_allowed() -> None:
    result = read(BashResult, b'{"output":"x","cancelled":true,"truncated":false,"later":1}', "bash")
    assert result == BashResult("x", UNSET, True, False, UNSET, "", "", None)
    assert raw(result)["later"] == 1
    assert read(LastText, b"{}", "get_last_assistant_text").text is None
    assert read_or_none(Cycled, b"null", "cycle_model") is None
    tokens = '"tokens":{"input":1,"output":1,"cacheRead":0,"cacheWrite":0,"total":2},"cost":0'
    counts = '"userMessages":1,"assistantMessages":1,"toolCalls":0,"toolResults":0,"totalMessages":2'
    stats = read(SessionStats, f'{{"sessionId":"s",{counts},{tokens}}}'.encode(), "get_session_stats")
    assert (stats.session_file, stats.tokens.total) == (UNSET, 2)


def test_a_reply_that_cannot_be_understood_says_so() -> None:
    with pytest.raises(BadReply, match="answer to bash cannot be read: output: "):
        read(BashResult, b'{"output":1}', "bash")
    with pytest.raises(BadReply, match="answer to get_messages contains no messages"):
        read_messages(b"[]", "get_messages")
