"""What a client is shown of a session is what the next model is sent, whoever wrote the file and however."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faults.disk import Unsynced
from faults.mutations import retyped
from support.loop_kit import MODEL, for_model
from support.session_logs import unheard
from tau.core.conversation.stats import SessionCounts
from tau.errors import CommandError
from tau.llm.compat import compat
from tau.llm.openai_chat import conversation
from tau.llm.types import ModelContext
from tau.records.base import encode, left_out, wire_json
from tau.records.lines import read_entry, read_message
from tau.records.messages import Assistant, BashExecution, Custom, Image, Other, Text, ToolCall, ToolResult, User
from tau.runtime.history.copies import fork_text
from tau.runtime.history.session_log import SessionLog
from tau.store.sessions import open_session

Json = dict[str, Any]
TIME = "2026-05-08T03:00:00.000Z"
MOMENT = 1778209200000
USAGE = {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2, "cost": {"total": 0.5}}
MARK = re.compile(r"said-\d\d")


def entry(id: str, parent: str | None, type: str = "message", **fields: Any) -> Json:
    return {"type": type, "id": id, "parentId": parent, "timestamp": TIME, **fields}


def asked(id: str, parent: str | None, content: Any) -> Json:
    return entry(id, parent, message={"role": "user", "content": content, "timestamp": MOMENT})


def answer(id: str, parent: str | None, *content: Any, **fields: Any) -> Json:
    said = {"role": "assistant", "content": [*content], "api": "a", "provider": "p", "model": "m", "usage": USAGE}
    return entry(id, parent, message={**said, "stopReason": "stop", "timestamp": MOMENT, **fields})


def block(text: str) -> Json:
    return {"type": "text", "text": text}


def session() -> list[Json]:
    """With all that may stand in one; what is said in it is different each time."""
    call = {"type": "toolCall", "id": "call1", "name": "bash", "arguments": {"command": "ls"}}
    result = {"role": "toolResult", "toolCallId": "call1", "toolName": "bash", "content": [block("said-30")]}
    picture = {"type": "image", "data": "QUJD", "mimeType": "image/png"}
    return [
        {"type": "session", "version": 3, "id": "s", "timestamp": TIME, "cwd": ""},
        entry("m", None, "model_change", provider="p", modelId="m"),
        asked("a", "m", "said-01"),
        answer("b", "a", block("said-02"), block("said-03")),
        asked("x", "b", [block("said-04")]),
        answer("y", "x", block("said-05")),
        asked("c", "b", [block("said-06"), block("said-07"), picture]),
        answer("d", "c", {"type": "thinking", "thinking": "hm"}, block("said-08"), call, stopReason="toolUse"),
        entry("e", "d", message={**result, "isError": False, "timestamp": MOMENT}),
        answer("f", "e", block("said-09"), errorMessage="x", responseId="r"),
        entry("g", "f", "compaction", summary="said-31", firstKeptEntryId="c", tokensBefore=5, details={}),
        entry("h", "g", "branch_summary", fromId="y", summary="said-32"),
        entry("i", "h", "custom_message", customType="note", content="said-33", display=True),
        asked("j", "i", [block("said-10")]),
        answer("k", "j", block("said-11"), stopReason="error", errorMessage="no"),
        answer("l", "k", block("said-12")),
    ]


def marks(message: Any) -> list[str]:
    """What a user or a model says in a message, as a client reads it."""
    if not isinstance(message, dict) or message.get("role") not in ("user", "assistant"):
        return []
    if message["role"] == "assistant" and message.get("stopReason") in ("error", "aborted"):
        return []
    content = message.get("content")
    blocks = content if isinstance(content, list) else [block(content)] if isinstance(content, str) else []
    texts = [each.get("text") if isinstance(each, dict) else each for each in blocks]
    return [mark for text in texts if isinstance(text, str) for mark in MARK.findall(text)]


def request(log: SessionLog) -> str:
    context = ModelContext("", for_model(log.messages, MODEL), [])
    return json.dumps(conversation(MODEL, context, compat(MODEL), thinks=False))


def check(path: Path, lines: list[Json]) -> None:
    path.write_bytes(stored := b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    try:
        opened = open_session(path)
    except CommandError:  # the header is none
        return
    log = SessionLog.resumed(opened, unheard, Unsynced())
    try:
        shown = json.loads(b"".join(log.messages_json()))
        sent, told = request(log), [*log.problems.found]
        places = {mark: at for at in range(len(log.tree)) for mark in MARK.findall(log.tree.line(at).decode())}
        named = {mark for mark, at in places.items() if any(f"entry {log.tree.id(at)}:" in text for text in told)}
        said = [mark for message in shown for mark in marks(message) if mark not in named]
        assert [mark for mark in said if mark not in sent] == [], told
        points = log.tree.fork_points()
        users = [mark for message in shown if message["role"] == "user" for mark in marks(message)]
        listed = " ".join(point.text for point in points)
        assert [mark for mark in users if mark not in named and mark not in listed] == [], told
        ids = [log.tree.id(at) for at in range(len(log.tree))]
        known = [point for point in points if ids.count(point.entry_id) == 1]
        assert [fork_text(log, point.entry_id) for point in known] == [point.text for point in known]
        answers = [marks(message) for message in shown if message["role"] == "assistant"]
        last = next((answer for answer in reversed([*log.messages]) if isinstance(answer, Assistant)), None)
        if answers and answers[-1] and named.isdisjoint(answers[-1]):
            assert last is not None and MARK.findall(last.text) == answers[-1]
        assert path.read_bytes() == stored
    finally:
        log.close()


@pytest.mark.promise("D09")
@settings(max_examples=1000)
@given(st.randoms(use_true_random=False), st.integers(1, 6))
def test_what_is_shown_is_sent_or_named(tmp_path_factory: pytest.TempPathFactory, chance: Random, changes: int) -> None:
    lines = session()
    for _ in range(changes):
        at = chance.randrange(len(lines))
        lines[at] = json.loads(json.dumps(lines[at]))  # the values that are put in are shared
        retyped(lines[at], chance)
    check(tmp_path_factory.getbasetemp() / "odd.jsonl", lines)


UNKNOWN = {"type": "server_tool_use", "id": "t"}
ANSWER = answer("b", "a", block("said-02"))["message"]
USER = {"role": "user", "content": [block("said-01")], "timestamp": MOMENT}
OLD_IMAGE = {"type": "image", "source": {"type": "base64", "mediaType": "image/png", "data": "QUJD"}}
OLDER_IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}


def without(message: Json, *names: str) -> Json:
    return {name: value for name, value in message.items() if name not in names}


@pytest.mark.parametrize(
    "message",
    [
        without(USER, "timestamp"),
        {**USER, "timestamp": MOMENT + 0.25},
        {**USER, "timestamp": TIME},
        {**USER, "timestamp": "yesterday"},
        {**USER, "attachments": None},
        {**USER, "content": ["said-01"]},
        without(ANSWER, "api", "provider", "model"),
        without(ANSWER, "stopReason", "timestamp"),
        without(ANSWER, "usage"),
        *({**ANSWER, "stopReason": reason} for reason in ("deferred", "pending", "injected", None, 5)),
        *({**ANSWER, name: None} for name in ("errorMessage", "responseId", "usage", "timestamp", "api")),
        {**ANSWER, "content": [{**block("said-02"), "textSignature": None}]},
        {**ANSWER, "content": "said-02"},
        {**ANSWER, "usage": {**USAGE, "input": 1.5, "output": None}},
        {**ANSWER, "usage": {**USAGE, "cost": None}},
        {**ANSWER, "usage": "much"},
    ],
    ids=lambda message: json.dumps(message)[:200],
)
def test_a_message_is_understood(message: Json) -> None:
    assert read_message(encode(message)) != Other(message["role"])
    found = read_entry(encode(entry("a", None, message=message))).message  # type: ignore[union-attr]
    assert isinstance(found, User | Assistant) and (found.timestamp, left_out(found)) == (MOMENT, ())
    assert MARK.findall(json.dumps(marks(message))) == MARK.findall(encode(found).decode())


def test_numbers_are_rounded_and_unknown_reasons_are_a_stop() -> None:
    usage = {**USAGE, "input": 1.6, "output": None, "cost": {"total": 0.5, "input": None}}
    found = read_message(encode({**ANSWER, "stopReason": "deferred", "usage": usage, "responseId": None}))
    assert isinstance(found, Assistant)
    assert (found.stop_reason, found.usage.input, found.usage.output, found.usage.cost.total) == ("stop", 2, 0, 0.5)
    assert wire_json(found) == encode({**ANSWER, "stopReason": "deferred", "usage": usage, "responseId": None})


def test_blocks_are_read_one_by_one_and_what_is_left_out_is_named() -> None:
    call = {"type": "toolCall", "id": "c", "name": "bash"}
    calls = [call, {**call, "arguments": '{"command":"ls"}'}, {**call, "arguments": "ls"}]
    found = read_message(encode({**ANSWER, "content": [UNKNOWN, block("said-02"), *calls]}))
    assert isinstance(found, Assistant)
    assert found.content == [Text("said-02"), ToolCall("c", "bash", {}), ToolCall("c", "bash", {"command": "ls"})]
    assert [text.split(":")[0] for text in left_out(found)] == ["content[0]", "content[4]"]
    asked = read_message(encode({**USER, "content": [OLD_IMAGE, OLDER_IMAGE, UNKNOWN]}))
    assert isinstance(asked, User) and asked.content == [Image("QUJD", "image/png")] * 2 and len(left_out(asked)) == 1
    lost = read_message(encode({**USER, "content": [UNKNOWN]}))
    assert lost == Other("user") and left_out(lost) == ["content: [0]: its type is unknown: 'server_tool_use'"]


def test_other_roles_are_read_leniently_too() -> None:
    command = {"role": "bashExecution", "command": "ls", "output": "a", "exitCode": None}
    assert read_message(encode(command)) == BashExecution("ls", "a")
    result = {"role": "toolResult", "toolCallId": "c", "content": [block("x")], "isError": None, "timestamp": 1.2}
    assert read_message(encode(result)) == ToolResult("c", "", [Text("x")], timestamp=1)
    note = {"role": "custom", "content": "x", "details": None}
    assert read_message(encode(note)) == Custom("", "x", False, None)


def test_entries_are_read_leniently(tmp_path: Path) -> None:
    lines = session()
    summary, note = lines[10], lines[12]
    del summary["tokensBefore"], note["display"]
    check(path := tmp_path / "s.jsonl", lines)
    log = SessionLog.resumed(open_session(path), unheard)
    assert log.tree.seen_count() == len([*log.messages]) == 10 and "said-01" not in request(log)
    assert "said-31" in request(log) and "said-33" in request(log) and log.problems.found == []
    log.close()
    del summary["summary"], note["content"]
    check(path, lines)
    log = SessionLog.resumed(open_session(path), unheard)
    assert "said-01" in request(log)
    assert [text.split(":")[0] for text in log.problems.found] == ["entry g", "entry i"]
    log.close()


def test_the_model_of_an_answer_that_was_read_leniently_is_restored(tmp_path: Path) -> None:
    lines = session()[:4]
    lines[-1]["message"] |= {"stopReason": "deferred", "model": "other"}
    check(path := tmp_path / "s.jsonl", [*lines, answer("n", "b", block("x"), provider=None, model=None)])
    log = SessionLog.resumed(open_session(path), unheard)
    assert log.last_model() == ("p", "other")
    log.close()


def test_an_entry_whose_parent_is_no_text_follows_the_one_before_it(tmp_path: Path) -> None:
    lines = session()[:4]
    lines[2]["parentId"] = 7
    check(path := tmp_path / "s.jsonl", lines)
    log = SessionLog.resumed(open_session(path), unheard)
    assert MARK.findall(request(log)) == ["said-01", "said-02", "said-03"] and "parent" in log.problems.found[0]
    log.close()


def test_statistics_count_what_was_read_leniently(tmp_path: Path) -> None:
    lines = session()[:8]
    lines[3]["message"]["usage"] = {**USAGE, "input": 1.6, "output": None}
    lines[7]["message"] |= {"usage": {**USAGE, "cost": None}, "stopReason": 5}
    check(path := tmp_path / "s.jsonl", lines)
    found = SessionCounts().update(open_session(path).tree).stats("s")
    assert (found.user_messages, found.assistant_messages, found.tool_calls) == (3, 3, 1)
    assert (found.tokens.input, found.tokens.output, found.cost) == (2 + 1 + 1, 0 + 1 + 1, 1.0)
