"""Who wrote a parser for `pi -p --mode json` in February 2026 gets the right totals from tau.

The parser here is written from notes of that time on its output, and from nothing else.

It knows five things, and passes over the rest:

    message_update, text_delta    assistantMessageEvent.delta                 a piece of text
    tool_execution_start          toolName, toolCallId, args                  a tool call
    tool_execution_end            toolCallId, result.content[0].text          its result
    message_update, error         assistantMessageEvent.reason                an error
    turn_end                      message.usage.cost.total, message.stopReason    a turn, and what it cost
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from support.anthropic_server import ModelServer
from support.cli_process import Done, run
from support.rpc_process import Json

PRICE = {"input": 3, "output": 15, "cacheRead": 0, "cacheWrite": 0}
SLOW_PIECES = {"blocks": [{"text": ["so ", "far"]}], "error": {"message": "401 bad key", "after": 2}}
DIALECTS = pytest.mark.parametrize(("argv", "last"), [([], "agent_settled"), (["--dialect", "2026-02"], "turn_end")])


@dataclass
class Heard:
    text: str = ""
    calls: list[tuple[str, str, Any]] = field(default_factory=list)
    results: list[tuple[str, str]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    cost: float = 0
    turns: int = 0
    complete: bool = False  # the last turn ended by itself


def read(lines: Iterable[str]) -> Heard:
    heard = Heard()
    for line in lines:
        event = json.loads(line)
        match event["type"]:
            case "message_update":
                delta = event["assistantMessageEvent"]
                if delta["type"] == "text_delta":
                    heard.text += delta["delta"]
                elif delta["type"] == "error":
                    heard.errors.append(delta["reason"])
            case "tool_execution_start":
                heard.calls.append((event["toolName"], event["toolCallId"], event["args"]))
            case "tool_execution_end":
                heard.results.append((event["toolCallId"], event["result"]["content"][0]["text"]))
            case "turn_end":
                heard.cost += event["message"]["usage"]["cost"]["total"]
                heard.turns += 1
                heard.complete = event["message"]["stopReason"] == "stop"
    return heard


def priced(models: Json) -> Json:
    for model in models["providers"]["mock"]["models"]:
        model["cost"] = PRICE
    return models


def lines(done: Done) -> list[str]:
    return done.out.rstrip("\n").split("\n")


@DIALECTS
def test_text_calls_results_turns_and_cost(argv: list[str], last: str, tmp_path: Path) -> None:
    with ModelServer("$ echo hello", "$ echo again", "Done.") as server:
        (tmp_path / "agent").mkdir()
        (tmp_path / "agent" / "models.json").write_text(json.dumps(priced(server.models)))
        model = ["--provider", "mock", "--model", "m1"]
        done = run(tmp_path, *argv, *model, "-p", "--mode", "json", "--no-session", "go")
    heard = read(lines(done))
    used = [event["message"]["usage"] for event in done.records if event["type"] == "turn_end"]
    assert (done.code, done.records[0]["type"], done.kinds[-1]) == (0, "session", last)
    assert [(name, arguments) for name, _, arguments in heard.calls] == [
        ("bash", {"command": "echo hello"}),
        ("bash", {"command": "echo again"}),
    ]
    assert heard.results == [(heard.calls[0][1], "hello\n"), (heard.calls[1][1], "again\n")]
    assert (heard.text, heard.errors, heard.turns, heard.complete) == ("Done.", [], 3, True)
    assert heard.cost == pytest.approx(sum(use["input"] * 3 + use["output"] * 15 for use in used) / 1_000_000)
    assert heard.cost > 0


@DIALECTS
def test_an_error(argv: list[str], last: str, tmp_path: Path) -> None:
    done = run(tmp_path, *argv, "-p", "--mode", "json", "--no-session", "go", answers=[SLOW_PIECES])
    heard = read(lines(done))
    assert (done.code, done.kinds[-1]) == (0, last)
    told = ["error"] if argv else []  # in the default only `turn_end` says so, as in pi
    assert (heard.text, heard.errors, heard.turns, heard.complete) == ("so far", told, 1, False)


@DIALECTS
def test_a_retry_is_reported_with_known_fields_only(argv: list[str], last: str, tmp_path: Path) -> None:
    answers = [{"error": {"message": "529 overloaded"}}, {"text": "at last"}]
    settings = {"retry": {"baseDelayMs": 1}}
    done = run(tmp_path, *argv, "-p", "--mode", "json", "--no-session", "go", answers=answers, settings=settings)
    heard = read(lines(done))
    assert (done.code, done.kinds[-1], heard.text, heard.complete) == (0, last, "at last", True)


def test_the_notes_name_every_event_of_their_dialect(tmp_path: Path) -> None:
    known = {"session", "agent_start", "turn_start", "message_start", "message_update", "message_end", "turn_end"}
    tools = {"tool_execution_start", "tool_execution_update", "tool_execution_end"}
    answers = [
        {"blocks": [{"thinking": "hm"}, {"tool": "bash", "arguments": {"command": "echo hello"}}]},
        {"error": {"message": "529 overloaded"}},
        {"text": "done"},
    ]
    argv = ["--dialect", "2026-02", "-p", "--mode", "json", "go", "on"]
    done = run(tmp_path, *argv, answers=answers, settings={"retry": {"baseDelayMs": 1}})
    assert {record["type"] for record in done.records} == known | tools
