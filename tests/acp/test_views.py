"""What a client is shown of tool calls and events, without a session."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.acp_peer import EVERYTHING, validator
from support.rpc_process import surroundings
from tau.acp.diffs import diffs_of_change, diffs_of_patch
from tau.acp.open_calls import FileChange, OpenCalls, ToolInfo
from tau.acp.outcomes import prompt_result
from tau.acp.requests import Capabilities, capabilities_of
from tau.acp.tool_views import fenced, view_of
from tau.acp.translator import Translator
from tau.acp.updates import Diff, Location, Update
from tau.core.text.diff import changes, split_lines, unified_patch
from tau.records.base import UNSET, encode
from tau.records.deltas import ToolCallEnd
from tau.records.events import (
    AgentSettled,
    BudgetExceeded,
    EntryAppended,
    Event,
    ExtensionError,
    McpServerUpdate,
    MessageEnd,
    Outcome,
    QueueUpdate,
    SessionInfoChanged,
    SessionWriteFailed,
    ToolEnd,
    ToolStart,
)
from tau.records.messages import Assistant, Custom, Image, Text, ToolCall, Usage

VIEWS: dict[str, tuple[str, dict[str, Any], str, str, list[Location]]] = {
    "read": ("read", {"path": "a.py"}, "read", "Read `a.py`", [Location("/w/a.py")]),
    "read a part": ("read", {"path": "a.py", "offset": 5, "limit": 10}, "read", "", [Location("/w/a.py", 5)]),
    "edit": ("edit", {"path": "/x/a.py"}, "edit", "Edit `/x/a.py`", [Location("/x/a.py")]),
    "write": ("write", {"path": "../b"}, "edit", "Write `../b`", [Location("/b")]),
    "bash": ("bash", {"command": "ls -l\nrm x"}, "execute", "ls -l", []),
    "grep": ("grep", {"pattern": "x", "path": "src"}, "search", "Search `x` in src", [Location("/w/src")]),
    "find": ("find", {"pattern": "*.py"}, "search", "Search `*.py`", [Location("/w")]),
    "ls": ("ls", {}, "search", "List `.`", [Location("/w")]),
    "an extension": ("deploy", {"file": "a"}, "other", "deploy", [Location("/w/a")]),
    "arguments of wrong types": ("read", {"path": 5, "offset": "x"}, "read", "Read `(empty)`", []),
    "a hidden character": ("bash", {"command": "echo \u202eevil"}, "execute", "echo \\u202eevil", []),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_call_has_a_kind_a_title_and_places(name: str) -> None:
    tool, arguments, kind, title, locations = VIEWS[name]
    view = view_of(tool, arguments, "/w")
    assert (view.kind, view.locations) == (kind, locations)
    assert view.title == (title or "Read `a.py` (lines 5\N{EN DASH}14)")


def test_a_long_title_is_cut_and_a_fence_is_longer_than_those_inside() -> None:
    assert len(view_of("bash", {"command": "x" * 500}, "/w").title) == 120
    assert fenced("a\n```\nb") == "````\na\n```\nb\n````"


def test_a_large_change_is_sent_as_hunks_with_three_lines_around() -> None:
    lines = [f"line {at}\n" for at in range(20_000)]
    before = "".join(lines).encode()
    changed = [*lines]
    changed[10], changed[15_000] = "ten\n", "much later\n"
    first, second = diffs_of_change("/f", before, "".join(changed).encode())
    assert first.old_text == "".join(lines[7:14]) and first.new_text == "".join(changed[7:14])
    assert second.new_text == "".join(changed[14_997:15_004])
    (whole,) = diffs_of_change("/f", None, b"x" * 100)
    assert whole == Diff("/f", None, "x" * 100)
    assert sum(len(one.new_text) for one in diffs_of_change("/f", b"", b"y\n" * 100_000)) <= 64 * 1024


def test_hunks_of_a_patch_are_the_change() -> None:
    before, after = b"a\nb\nc\n", b"a\nB\nc"
    old, new = split_lines(before), split_lines(after)
    patch = unified_patch("f", old, new, changes(old, new))
    assert diffs_of_patch("/f", patch) == [Diff("/f", before.decode(), after.decode())]


def translator(capabilities: Capabilities | None = None) -> tuple[Translator, list[str]]:
    logged: list[str] = []
    calls = OpenCalls("/w", ToolInfo)
    known = capabilities_of(EVERYTHING) if capabilities is None else capabilities
    return Translator(
        calls, known, lambda: "answer", lambda: "id", lambda: "2026-01-01T00:00:00Z", logged.append
    ), logged


def shown(updates: list[Update]) -> list[Any]:
    found = [json.loads(encode(update)) for update in updates]
    for update in found:
        validator("SessionNotification")({"sessionId": "s", "update": update})
    return found


EVENTS: list[tuple[Event, dict[str, Any]]] = [
    (QueueUpdate(["a"], []), {"_meta": {"tau": {"queue": {"steering": ["a"], "followUp": []}}}}),
    (SessionInfoChanged("n"), {"title": "n", "updatedAt": "2026-01-01T00:00:00Z"}),
    (BudgetExceeded("turns", 3, 2), {"severity": "warning"}),
    (SessionWriteFailed("/f", "full", 1), {"severity": "error"}),
    (ExtensionError("/e.py", "x", "boom"), {"severity": "error", "description": "boom"}),
    (McpServerUpdate("lab", "failed", error="no"), {"severity": "error", "description": "no"}),
    (MessageEnd(Custom("t", "hello", True)), {"content": {"type": "text", "text": "hello"}}),
    (MessageEnd(Custom("t", [Image("AA==", "image/png")], True)), {"messageId": "id"}),
    (
        EntryAppended({"type": "custom", "customType": "plan", "data": {"entries": [{"content": "do"}]}}),
        {"sessionUpdate": "plan", "entries": [{"content": "do", "priority": "medium", "status": "pending"}]},
    ),
]


@pytest.mark.parametrize("event, expected", EVENTS, ids=lambda value: type(value).__name__)
def test_events_become_updates(event: Event, expected: dict[str, Any]) -> None:
    (update,) = shown(translator()[0].translate(event))
    assert expected.items() <= update.items()


def test_events_that_a_client_cannot_show_are_logged_or_left_out() -> None:
    plain, logged = translator(Capabilities())
    assert plain.translate(ExtensionError("/e.py", "x", "boom")) == []
    assert "boom" in logged[0]
    wrong = EntryAppended({"type": "custom", "customType": "plan", "data": {"entries": [{"status": "odd"}]}})
    assert translator()[0].translate(wrong) == []
    assert translator()[0].translate(MessageEnd(Custom("t", "hidden", False))) == []


def test_a_call_that_never_runs_ends_as_failed() -> None:
    one, _ = translator()
    call = ToolCall("c", "bash", {"command": "ls"})
    one.calls.open("c", "bash")
    (announced,) = shown(one.translate_delta(ToolCallEnd(0, call)))
    assert (announced["sessionUpdate"], announced["status"], announced["title"]) == ("tool_call", "pending", "ls")
    failed = Assistant([], "a", "p", "m", Usage(), "error", 0, error_message="cut")
    (update,) = shown(one.translate(MessageEnd(failed)))
    assert (update["toolCallId"], update["status"]) == ("c", "failed")
    assert one.translate(AgentSettled()) == []


def test_a_call_is_announced_once_with_its_arguments_or_without_them_when_they_take_long() -> None:
    calls = OpenCalls("/w", ToolInfo)
    slow, cut = calls.open("slow", "bash"), calls.open("cut", "bash")
    (early,) = shown([one] if (one := calls.announce(slow)) else [])
    assert (early["sessionUpdate"], early["title"], early["kind"]) == ("tool_call", "bash", "execute")
    assert calls.announce(slow) is None
    (later,) = shown(calls.complete_arguments("slow", "bash", {"command": "ls"}))
    assert (later["sessionUpdate"], later["title"], later["rawInput"]) == ("tool_call_update", "ls", {"command": "ls"})
    (failed,) = shown(calls.fail_all("Not run."))
    assert failed["toolCallId"] == "slow"  # the client was never told of the other
    assert calls.announce(cut) is None


def test_calls_with_one_id_at_once_get_ids_of_their_own_and_both_end() -> None:
    one, _ = translator()
    for _ in range(2):
        one.translate(ToolStart("c", "bash", {"command": "ls"}))
    ends = [shown(one.translate(ToolEnd("c", "bash", Outcome([Text("x")]), False)))[0] for _ in range(2)]
    assert len({end["toolCallId"] for end in ends}) == 2


def test_a_change_is_shown_only_if_the_call_succeeded() -> None:
    calls = OpenCalls("/w", ToolInfo)
    calls.start("c", "edit", {"path": "f"})
    calls.record_change("c", FileChange("/w/f", b"a", b"b"))
    update = calls.end("c", "edit", Outcome([Text("no")]), is_error=True)
    assert "diff" not in encode(update).decode()


class Ended:
    aborted = False
    exceeded = None
    output: Any = UNSET
    output_error = None
    answer: Assistant | None = None


def test_a_budget_of_time_is_named_in_the_answer() -> None:
    ended = Ended()
    ended.exceeded = BudgetExceeded("time", 3, 2)  # type: ignore[assignment]
    result = json.loads(encode(prompt_result(ended, 0)))
    assert result["stopReason"] == "max_turn_requests"
    assert result["_meta"]["tau"]["budget"] == {"limit": "time", "used": 3, "allowed": 2}


def loaded(argv: list[str], line: bytes, folder: Path) -> set[str]:
    program = [sys.executable, "-X", "importtime", "-m", "tau", *argv]
    done = subprocess.run(program, env=surroundings(folder), input=line, capture_output=True, check=True)
    return {row.rpartition("|")[2].strip() for row in done.stderr.decode().splitlines()}


@pytest.mark.process
def test_initialize_loads_no_session_and_rpc_mode_nothing_of_this(tmp_path: Path) -> None:
    line = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}\n'
    acp = loaded(["acp"], line, tmp_path)
    assert "tau.acp.server" in acp
    assert not {name for name in acp if name.startswith(("tau.llm", "tau.runtime.app.factory", "tau.tools"))}
    rpc = loaded(["--mode", "rpc", "--model", "demo"], b'{"type":"get_state"}\n', tmp_path)
    assert "tau.rpc.server" in rpc
    assert not {name for name in rpc if name.startswith(("tau.acp", "tau.wire.jsonrpc"))}
    assert not {name for name in loaded(["--help"], b"", tmp_path) if name.startswith("tau.acp")}
