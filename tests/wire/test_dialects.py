"""What each dialect makes of what the program says and hears: tables, looked at from outside."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tau.errors import UsageError
from tau.records import commands as c
from tau.records import events as e
from tau.records import replies as r
from tau.records.base import UNSET, Record, encode
from tau.records.deltas import Failure
from tau.records.messages import Assistant, Text, Usage, User
from tau.wire import dialects
from tau.wire.dialect import COMMANDS
from tau.wire.dialects import NAMES, Dialect, all_dialects, find
from tau.wire.releases import find_entry

EMPTY = Assistant([], "api", "provider", "model", Usage(), "stop", 1)
TIME = "2025-12-01T10:00:00.000Z"
RESULT = e.CompactionResult("S", "e1", 1000, UNSET, 10, Usage(), TIME, 3)
COMPACTED = {"timestamp": TIME, "summary": "S", "firstKeptEntryIndex": 3, "tokensBefore": 1000}


def records_of(name: str, event: e.Event) -> list[Any]:
    return [json.loads(line) for line in find(name).event_lines(event)]


def kinds(event: e.Event) -> dict[str, list[str]]:
    return {name: [record["type"] for record in records_of(name, event)] for name in NAMES}


@pytest.mark.parametrize(
    ("named", "meant"),
    [
        *((name, name) for name in NAMES),
        (None, "default"),
        ("", "default"),
        ("0.13.2", "2025-12"),
        ("0.45.7", "2026-01"),
        ("0.51.6", "2026-02"),
        ("0.55.4", "2026-03"),
        ("0.58.3", "2026-03"),
        ("0.73.1", "0.73"),
        ("0.80.3", "0.73"),
        ("0.83.0", "default"),
        ("0.84.0", "0.84"),
        ("0.85.1", "0.84"),
        ("0.86.0", "1.5"),
        ("0.87.1", "1.5"),
        ("2.0", "1.5"),
    ],
)
def test_a_dialect_is_found_by_its_name_or_by_a_release_of_pi(named: str | None, meant: str) -> None:
    assert find(named).name == meant


def test_an_unknown_dialect_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(UsageError) as refused:
        find("2026-3")
    assert str(refused.value) == (
        "Unknown dialect '2026-3'. There are 1.5, 0.84, 0.73, default, 2026-03, 2026-02, 2026-01, "
        "2025-12, and releases of pi such as 0.55.4."
    )


def test_what_a_dialect_does_not_change_is_passed_on_as_it_is() -> None:
    message = e.MessageEnd(User("hello", 1))
    assert {dialect.name: dialect.event_lines(message) for dialect in all_dialects()} == {
        name: [e.event_json(message)] for name in NAMES
    }


def test_a_failed_answer_has_an_error_delta_where_it_is_documented() -> None:
    failed = Assistant([], "a", "p", "m", Usage(), "error", 1, error_message="no")
    update = e.MessageUpdate(Failure("error", failed), message=failed, usage=failed.usage)
    assert {name: records_of(name, update) != [] for name in NAMES} == {
        **dict.fromkeys(NAMES, False),
        **dict.fromkeys(["2026-03", "2026-02", "2026-01", "2025-12"], True),
    }


def test_the_default_leaves_the_streaming_events_alone() -> None:
    kept = {e.AgentStart, e.TurnStart, e.TurnEnd, e.MessageStart, e.MessageEnd, e.ToolStart}
    assert kept & set(dialects.DEFAULT.events) == set()


def test_an_automatic_compaction_has_the_name_of_its_time() -> None:
    auto = ["auto_compaction_start"]
    assert kinds(e.CompactionStart("threshold")) == {
        **dict.fromkeys(NAMES, auto),
        "1.5": ["compaction_start"],
        "0.84": ["compaction_start"],
        "0.73": ["compaction_start"],
        "2025-12": [],
    }
    assert records_of("2025-12", e.CompactionEnd("overflow", RESULT, False, True)) == [
        {"type": "compaction", **COMPACTED, "auto": True}
    ]
    assert records_of("2025-12", e.CompactionEnd("overflow", None, False, False, "why")) == [
        {"type": "error", "error": "why"}
    ]
    assert records_of("2026-03", e.CompactionEnd("overflow", None, True, False)) == [
        {"type": "auto_compaction_end", "result": None, "aborted": True, "willRetry": False}
    ]


def test_a_compaction_that_was_asked_for_is_an_event_only_in_the_newer_ones() -> None:
    newer = ["compaction_end"]
    assert kinds(e.CompactionEnd("manual", RESULT, False, False)) == {
        **{name: [] for name in NAMES},
        "default": newer,
        "1.5": newer,
        "0.84": newer,
        "0.73": newer,
    }
    assert kinds(e.CompactionStart("manual"))["default"] == ["compaction_start"]


def test_what_a_compaction_took_is_reported_in_the_default_and_the_newest_only() -> None:
    end = e.CompactionEnd("overflow", RESULT, False, True)
    common = {"summary": "S", "firstKeptEntryId": "e1", "tokensBefore": 1000}
    more = {**common, "estimatedTokensAfter": 10, "usage": json.loads(encode(Usage()))}
    shapes = {"default": more, "1.5": more, "0.73": common, "2026-03": common, "2026-01": common}
    assert {name: records_of(name, end)[0]["result"] for name in shapes} == shapes
    assert {name: json.loads(encode(find(name).reply_data(c.Compact, RESULT))) for name in shapes} == shapes


def test_a_tool_that_has_nothing_to_show_yet_is_reported_in_the_newer_ones_only() -> None:
    update = e.ToolUpdate("1", "bash", {}, e.Outcome([]))
    assert [name for name in NAMES if find(name).event_records(update)] == ["1.5", "0.84", "0.73"]


def test_an_error_of_an_extension_is_said_in_four_ways() -> None:
    event = e.ExtensionError("/x.py", "tool_call", "boom")
    assert records_of("default", event) == [
        {"type": "extension_error", "extensionPath": "/x.py", "event": "tool_call", "error": "boom"}
    ]
    assert records_of("2026-01", event) == [
        {"type": "hook_error", "hookPath": "/x.py", "event": "tool_call", "error": "boom"}
    ]
    assert records_of("2025-12", event) == [{"type": "error", "error": "boom"}]


@pytest.mark.parametrize("name", NAMES)
def test_the_duration_of_a_tool_is_reported_in_the_newest_only(name: str) -> None:
    (record,) = records_of(name, e.ToolEnd("1", "ls", e.Outcome([Text("a")]), False, 12))
    assert record == {
        "type": "tool_execution_end",
        "toolCallId": "1",
        "toolName": "ls",
        "result": {"content": [{"type": "text", "text": "a"}]},
        "isError": False,
        **({"durationMs": 12} if name == "1.5" else {}),
    }


def test_in_the_first_dialect_the_error_of_a_tool_is_a_string() -> None:
    (record,) = records_of("2025-12", e.ToolEnd("1", "ls", e.Outcome([Text("a"), Text("b")]), True))
    assert (record["result"], record["isError"]) == ("a\nb", True)


def test_an_answer_that_is_still_to_come_is_pending_in_the_newest() -> None:
    begun = e.MessageStart(EMPTY)
    assert {name: records_of(name, begun)[0]["message"]["stopReason"] for name in NAMES} == {
        **dict.fromkeys(NAMES, "stop"),
        "1.5": "pending",
        "0.84": "pending",
    }
    (ended,) = records_of("1.5", e.MessageEnd(EMPTY))
    assert ended["message"]["stopReason"] == "stop"


def test_json_mode_of_february_ends_with_turn_end() -> None:
    february = find("2026-02").for_json()
    assert february.event_lines(e.AgentEnd([])) == february.event_lines(e.AgentSettled()) == []
    assert february.event_lines(e.CompactionEnd("threshold", RESULT, False, False)) == []
    assert february.event_lines(e.TurnEnd(EMPTY, [])) != []
    assert find("2026-02").event_lines(e.AgentEnd([])) == [b'{"type":"agent_end","messages":[]}']


@pytest.mark.parametrize("dialect", all_dialects(), ids=NAMES)
def test_every_event_becomes_what_the_dialect_says_it_makes(dialect: Dialect) -> None:
    heard = {str(kind.__struct_config__.tag) for kind in dialect.event_types()}
    said = [line for event in SAMPLES for line in dialect.event_lines(event)]
    assert {json.loads(line)["type"] for line in said} <= heard


SAMPLES: list[e.Event] = [
    e.AgentEnd([User("x", 1)], True),
    e.AgentSettled(),
    e.MessageStart(EMPTY),
    e.QueueUpdate(["a"], []),
    e.CompactionStart("manual"),
    e.CompactionStart("overflow"),
    e.CompactionEnd("overflow", None, False, False, "no"),
    e.AutoRetryStart(1, 3, 2000, "529"),
    e.AutoRetryEnd(True, 1),
    e.SessionInfoChanged("n"),
    e.ThinkingLevelChanged("high"),
    e.BashUpdate("out", "7"),
    e.SessionDamaged("/f", ["line 3"]),
    e.SessionWriteFailed("/f", "full", 2),
    e.SessionWriteRecovered("/f"),
    e.ExtensionError("/x", "y", "z"),
]


# Commands


def test_the_older_names_of_forks_are_known_in_january_only() -> None:
    assert {name: find(name).command_type("branch") for name in NAMES} == {**dict.fromkeys(NAMES), "2026-01": c.Fork}
    assert find("2026-01").command_type("get_branch_messages") is c.GetForkMessages


def test_the_first_dialect_knows_three_commands_and_the_question_for_itself() -> None:
    assert sorted(find("2025-12").command_types) == ["abort", "compact", "get_protocol", "prompt"]


def test_every_dialect_can_be_asked_what_it_is() -> None:
    assert [dialect.name for dialect in all_dialects() if dialect.command_type("get_protocol") is None] == []


def test_the_default_knows_every_command() -> None:
    assert dialects.DEFAULT.command_types == COMMANDS


def test_in_the_first_dialect_a_prompt_during_a_run_is_queued() -> None:
    first = find("2025-12")
    assert first.fill_defaults(c.Prompt("x")) == c.Prompt("x", streaming_behavior="followUp")
    assert first.fill_defaults(c.Prompt("x", streaming_behavior="steer")) == c.Prompt("x", streaming_behavior="steer")
    assert dialects.DEFAULT.fill_defaults(c.Prompt("x")) == c.Prompt("x")


# Responses


@pytest.mark.parametrize("kind", [c.Prompt, c.Steer, c.FollowUp])
def test_what_became_of_a_message_is_answered_in_the_default_and_the_newest_only(kind: type[c.Command]) -> None:
    accepted = r.Accepted("queued")
    assert {name: find(name).reply_data(kind, accepted) for name in NAMES} == {
        **dict.fromkeys(NAMES, UNSET),
        "default": accepted,
        "1.5": accepted,
    }


def test_the_streams_of_a_command_are_an_addition() -> None:
    result = r.BashResult("o", 0, False, False, UNSET, "o", "", None)
    plain = {"output": "o", "exitCode": 0, "cancelled": False, "truncated": False}
    extra = {"stdout": "o", "stderr": "", "signal": None}
    assert json.loads(encode(find("2026-03").reply_data(c.Bash, result))) == plain
    assert json.loads(encode(find("default").reply_data(c.Bash, result))) == {**plain, **extra}


def test_a_slash_command_has_the_shape_of_its_time() -> None:
    both = r.SlashCommands([r.SlashCommand("fix", "Repairs", "prompt", "user", "/fix.md", {"path": "/fix.md"})])
    older, newer = {"location": "user", "path": "/fix.md"}, {"sourceInfo": {"path": "/fix.md"}}
    shapes = {
        name: _first(find(name).reply_data(c.GetCommands, both)) for name in ("default", "2026-03", "0.73", "1.5")
    }
    common = {"name": "fix", "description": "Repairs", "source": "prompt"}
    assert shapes == {
        "default": {**common, **older, **newer},
        "2026-03": {**common, **older, "description": "Repairs (user)"},
        "0.73": {**common, **newer},
        "1.5": {**common, **newer},
    }


@pytest.mark.parametrize(
    ("command", "description"),
    [
        (r.SlashCommand("fix", "Repairs", "prompt", "project", "/p/fix.md"), "Repairs (project)"),
        (r.SlashCommand("fix", "Repairs", "prompt", "path", "/p/fix.md"), "Repairs (path:fix)"),
        (r.SlashCommand("fix", source="prompt", location="user", path="/p/fix.md"), "(user)"),
        (r.SlashCommand("skill:fix", "Repairs", "skill", "user", "/p/SKILL.md"), "Repairs"),
        (r.SlashCommand("fix", "Repairs", "extension", path="/p/fix.py"), "Repairs"),
    ],
)
def test_until_march_2026_the_description_of_a_template_ends_with_its_location(
    command: r.SlashCommand, description: str
) -> None:
    assert _first(find("2026-03").reply_data(c.GetCommands, r.SlashCommands([command])))["description"] == description


def _first(data: Record) -> Any:
    return json.loads(encode(data))["commands"][0]


@pytest.mark.parametrize(
    ("name", "data", "error", "said"),
    [
        ("prompt", UNSET, UNSET, []),
        ("prompt", UNSET, "message: missing", [{"type": "error", "error": "message: missing"}]),
        ("compact", RESULT, UNSET, [{"type": "compaction", **COMPACTED}]),
        (
            "compact",
            UNSET,
            "Already compacted",
            [{"type": "error", "error": "Compaction failed: Already compacted"}],
        ),
    ],
)
def test_in_the_first_dialect_events_stand_for_responses(name: str, data: Any, error: Any, said: list[Any]) -> None:
    assert [json.loads(line) for line in find("2025-12").substitute(name, data, error)] == said


def test_a_dialect_keeps_the_settings_of_a_group_that_the_next_one_does_not_change() -> None:
    newer, older = dialects.find("1.5").defaults["compat"], dialects.find("0.73").defaults["compat"]
    assert newer["steerAfter"] == older["steerAfter"] == "turn"
    assert (newer["streamingUntil"], older["streamingUntil"]) == ("settled", "end")
    oldest = {
        "statsOf": "conversation",
        "saveLoweredLevel": True,
        "sessionFolder": "start",
        "fileTexts": "0.13",
        "compactShort": True,
        "retrySuccess": "run",
    }
    assert dialects.find("2026-01").defaults["compat"] == oldest


def test_the_releases_between_0_84_and_0_86_add_to_their_updates() -> None:
    releases = ("0.84", "0.84.1", "0.84.2", "0.84.3", "0.85")
    assert [name for name in releases if find(name).usage] == ["0.84.2", "0.84.3", "0.85"]
    assert [name for name in releases if find(name).tool_names] == ["0.84.3", "0.85"]


@pytest.mark.parametrize("name", [*NAMES, "0.84.2", "0.85"])
def test_the_version_of_a_dialect_is_known_without_it(name: str) -> None:
    assert find_entry(name).pi == find(name).pi


def test_no_answer_is_an_empty_object_in_the_newer_ones() -> None:
    sent = {name: encode(find(name).reply_data(c.GetLastAssistantText, r.LastText(None))) for name in NAMES}
    assert sent == {**dict.fromkeys(NAMES, b'{"text":null}'), **dict.fromkeys(["1.5", "0.84", "0.73"], b"{}")}
    assert encode(find("1.5").reply_data(c.GetLastAssistantText, r.LastText("x"))) == b'{"text":"x"}'


def test_0_84_has_none_of_what_came_later() -> None:
    assert records_of("0.84", e.AgentSettled(aborted=True)) == [{"type": "agent_settled"}]
    assert find("0.84").reply_data(c.Prompt, r.Accepted("queued")) is UNSET
    ended = records_of("0.84", e.ToolEnd("1", "bash", e.Outcome([]), False, 5))
    assert "durationMs" not in ended[0]
    assert find("0.84").defaults["compat"]["systemMessages"] is False
