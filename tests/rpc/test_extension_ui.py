"""Dialogs and what else extensions show, over the wire: the commands are those of extensions/twin/lab.py."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from support.rpc_agent import Agent
from support.rpc_process import Json, calls, endless, of, text

TWIN = Path(__file__).parent.parent / "extensions" / "twin"


def lab(folder: Path, *answers: Json) -> Agent:
    return Agent(folder, *answers, args=["-e", str(TWIN / "lab.py")])


def asked(agent: Agent, method: str) -> Json:
    """The next request of this kind."""
    return agent.until(lambda event: event.get("method") == method)[-1]


def answer(agent: Agent, request: Json, **said: Any) -> None:
    agent.write(json.dumps({"type": "extension_ui_response", "id": request["id"], **said}).encode() + b"\n")


def about(request: Json) -> Json:
    return {key: value for key, value in request.items() if key not in ("type", "id")}


def test_a_command_is_answered_when_it_begins_so_that_its_dialogs_can_be(tmp_path: Path) -> None:
    with lab(tmp_path) as agent:
        assert agent.ask("prompt", message="/ui-select")["success"]
        request = asked(agent, "select")
        assert about(request) == {"method": "select", "title": "Pick one", "options": ["Allow", "Block"]}
        answer(agent, request, value="Block")
        assert about(asked(agent, "notify")) == {
            "method": "notify",
            "message": 'select="Block"',
            "notifyType": "info",
        }
        assert [record["type"] for record in agent.records] == ["response", *["extension_ui_request"] * 2]


@pytest.mark.parametrize(
    ("command", "method", "said", "told"),
    [
        ("/ui-select", "select", {"cancelled": True}, "select=undefined"),
        ("/ui-select", "select", {"value": "Zork"}, 'select="Zork"'),
        ("/ui-confirm", "confirm", {"confirmed": True}, "confirm=true"),
        ("/ui-confirm", "confirm", {"cancelled": True}, "confirm=false"),
        ("/ui-input", "input", {"value": "hello"}, 'input="hello"'),
        ("/ui-input", "input", {"cancelled": True}, "input=undefined"),
        ("/ui-editor", "editor", {"value": "a\nb"}, 'editor="a\\nb"'),
    ],
)
def test_every_dialog_gives_the_extension_what_was_answered(
    tmp_path: Path, command: str, method: str, said: Json, told: str
) -> None:
    with lab(tmp_path) as agent:
        agent.ask("prompt", message=command)
        answer(agent, asked(agent, method), **said)
        assert asked(agent, "notify")["message"] == told


def test_a_dialog_whose_time_is_over_is_ended_by_us_and_a_late_answer_is_nothing(tmp_path: Path) -> None:
    with lab(tmp_path) as agent:
        agent.ask("prompt", message="/ui-input t")
        request = asked(agent, "input")
        assert request["timeout"] == 400
        assert asked(agent, "notify")["message"] == "input=undefined"
        before = len(agent.records)
        answer(agent, request, value="late")
        answer(agent, {"id": "nobody"}, value="x")
        agent.write(b'{"type":"extension_ui_response"}\n{"type":"extension_ui_response","id":[1]}\n')
        assert agent.ask("get_state")["success"]
        assert len(agent.records) == before + 1


def test_what_is_only_shown_comes_in_order(tmp_path: Path) -> None:
    with lab(tmp_path) as agent:
        agent.ask("prompt", message="/ui-fire")
        asked(agent, "set_editor_text")
        assert [about(event) for event in agent.events] == [
            {"method": "notify", "message": "plain"},
            {"method": "notify", "message": "warn", "notifyType": "warning"},
            {"method": "notify", "message": "bad", "notifyType": "error"},
            {"method": "setStatus", "statusKey": "lab", "statusText": "busy"},
            {"method": "setStatus", "statusKey": "lab"},
            {"method": "setWidget", "widgetKey": "w", "widgetLines": ["l1", "l2"]},
            {"method": "setWidget", "widgetKey": "w", "widgetLines": ["l1"], "widgetPlacement": "belowEditor"},
            {"method": "setWidget", "widgetKey": "w"},
            {"method": "setTitle", "title": "pi - lab"},
            {"method": "set_editor_text", "text": "prefilled"},
        ]


def test_a_command_that_raises_is_an_error_and_its_prompt_a_success(tmp_path: Path) -> None:
    with lab(tmp_path) as agent:
        assert agent.ask("prompt", message="/boom")["success"]
        assert agent.until("extension_error")[-1] == {
            "type": "extension_error",
            "extensionPath": "command:boom",
            "event": "command",
            "error": "boom failed",
        }


def test_commands_work_during_a_run_and_cannot_be_queued(tmp_path: Path) -> None:
    with lab(tmp_path, endless("busy")) as agent:
        agent.ask("prompt", message="go")
        agent.until("message_update")
        assert agent.ask("prompt", message="/ui-confirm t")["success"]
        assert asked(agent, "notify")["message"] == "confirm=false"
        refused = 'Extension command "/boom" cannot be queued. Use prompt() or execute the command when not streaming.'
        for kind in ("steer", "follow_up"):
            assert agent.ask(kind, message="/boom")["error"] == refused
        assert agent.ask("abort")["success"]


@pytest.mark.parametrize("confirmed", [True, False])
def test_a_gate_asks_before_a_tool_runs(tmp_path: Path, confirmed: bool) -> None:
    with lab(tmp_path, calls("echo danger"), {"text": "done"}) as agent:
        agent.ask("prompt", message="go")
        request = asked(agent, "confirm")
        assert about(request) == {"method": "confirm", "title": "Dangerous", "message": "echo danger"}
        answer(agent, request, confirmed=confirmed)
        (end,) = of("tool_execution_end", agent.settled())
        told = (False, "danger\n") if confirmed else (True, "Blocked by user")
        assert (end["isError"], text(end["result"])) == told


@pytest.mark.promise("C25")
@pytest.mark.parametrize("where", ["command", "gate"])
def test_an_abort_cancels_an_unanswered_dialog(tmp_path: Path, where: str) -> None:
    with lab(tmp_path, calls("echo danger"), {"text": "done"}) as agent:
        agent.ask("prompt", message="/ui-select" if where == "command" else "go")
        request = asked(agent, "select" if where == "command" else "confirm")
        assert agent.ask("abort")["success"]
        answer(agent, request, value="Allow", confirmed=True)
        assert agent.get("get_state")["isStreaming"] is False
        assert [text(end["result"]) for end in of("tool_execution_end", agent.events)] == (
            [] if where == "command" else ["Operation aborted"]
        )


def test_another_session_cancels_open_dialogs(tmp_path: Path) -> None:
    with lab(tmp_path) as agent:
        agent.ask("prompt", message="/ui-confirm")
        asked(agent, "confirm")
        assert agent.get("new_session") == {"cancelled": False}
        # The command goes on with "no", before or after the extension starts anew for the other session.
        last = agent.until(lambda event: event["type"] == "extension_error" or "notifyType" in event)[-1]
        if last["type"] == "extension_error":
            assert (last["extensionPath"], last["event"]) == ("command:ui-confirm", "command")
        else:
            assert last["message"] == "confirm=false"


@pytest.mark.process
@pytest.mark.parametrize("how", ["signal", "end"])
def test_the_end_does_not_wait_for_a_dialog(tmp_path: Path, how: str) -> None:
    with lab(tmp_path) as agent:
        agent.ask("prompt", message="/ui-confirm")
        asked(agent, "confirm")
        if how == "end":
            agent.close()
            assert agent.exit_code() == 0
            assert agent.events[-1]["message"] == "confirm=false"
        else:
            os.kill(agent.pid, signal.SIGTERM)
            assert agent.exit_code() == 143
