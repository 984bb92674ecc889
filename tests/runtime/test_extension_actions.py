from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from support.in_process_session import House, play
from support.rpc_process import Json, calls, endless, of, said, texts
from tau.errors import CommandError, ExtensionFailure
from tau.extension_api.messages import ACTIONS as PROTOCOL
from tau.runtime.extensions.lifecycle import register_providers
from tau.runtime.session.extension_actions import ACTIONS, SESSION_ACTIONS, session_facts
from tau.runtime.session.ui_requests import QUESTIONS, SHOWN, TERMINAL

NOTE = {"customType": "note", "content": "by the way", "display": True, "details": {"a": 1}}
HERE = {"exec", "emit", "withdraw", "get_facts"}  # carried out elsewhere: by the extension, the bus, its connection


def test_every_action_of_the_protocol_is_here() -> None:
    assert {*ACTIONS, *SESSION_ACTIONS, *QUESTIONS, *SHOWN, *TERMINAL} == set(PROTOCOL) - HERE


def test_what_is_no_action_and_what_does_not_fit_is_said(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path)
        for name, params, wrong in [
            ("fly", {}, 'There is no action "fly".'),
            ("set_label", {}, "set_label: entryId: missing"),
            ("set_active_tools", {"names": "bash"}, "set_active_tools: names: expected array, got str"),
            ("send_user_message", {"content": 5}, "content"),
            ("send_message", {"message": "hi"}, "message: expected an object"),
            ("send_message", {"message": {"content": "hi"}}, "message: customType: missing"),
            ("send_message", {"message": NOTE, "deliverAs": "soon"}, "deliverAs"),
        ]:
            with pytest.raises(ExtensionFailure, match=wrong.replace('"', '"')):
                await house.act(name, **params)

    play(story())


@pytest.mark.parametrize("path", ["", "a\0b", "~no-such-user-here/x.jsonl"])
def test_a_session_path_is_checked_as_for_clients(tmp_path: Path, path: str) -> None:
    async def story() -> None:
        house = House(tmp_path)
        with pytest.raises((CommandError, ExtensionFailure), match="not a path"):
            await house.act("switch_session", sessionPath=path)

    play(story())


def test_an_entry_is_read_like_all_entries(tmp_path: Path) -> None:
    """A stored line may hold what a client may not send, such as a lone surrogate or deep nesting."""

    async def story() -> None:
        house = House(tmp_path)
        await house.act("append_entry", customType="deep", data=1)
        deep: Any = 1
        for _ in range(300):
            deep = [deep]
        house.session.log.append_custom("deep", deep)
        entries = await house.act("get_entries")
        assert await house.act("get_entry", id=entries[-1]["id"]) == entries[-1]

    play(story())


# Messages.


def test_a_message_while_nothing_runs_is_reported_and_kept(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path)
        await house.act("send_message", message=NOTE)
        assert [event["type"] for event in house.heard] == ["message_start", "message_end"]
        (message,) = said(house.heard, "custom")
        assert {**message, "timestamp": 0} == {"role": "custom", **NOTE, "timestamp": 0}
        entry = (await house.act("get_entries"))[-1]
        assert (entry["type"], entry["customType"], entry["content"]) == ("custom_message", "note", "by the way")

    play(story())


def test_a_message_may_start_a_run_of_its_own(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path)
        await house.act("send_message", message=NOTE, triggerTurn=True)
        await house.session.runs.idle()
        assert texts(house.heard, "assistant") == ["ok"]
        assert len(said(house.heard, "custom")) == 1
        path = house.session.log.path
        assert path is not None
        kinds = [json.loads(line)["type"] for line in path.read_text().splitlines()]
        assert kinds[0] == "session" and kinds[-2:] == ["custom_message", "message"]

    play(story())


def test_a_message_for_the_next_turn_comes_with_the_next_prompt(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path)
        await house.act("send_message", message=NOTE, deliverAs="nextTurn")
        assert house.heard == []
        await house.act("new_session")
        await house.act("send_message", message=NOTE, deliverAs="nextTurn")
        events = await house.prompt("go")
        assert [one["message"]["role"] for one in of("message_end", events)] == ["user", "custom", "assistant"]

    play(story())


@pytest.mark.parametrize("deliver", ["steer", "followUp"])
def test_a_message_during_a_run_is_queued(tmp_path: Path, deliver: str) -> None:
    async def story() -> None:
        house = House(tmp_path, calls("echo hi"), {"text": "done"}, {"text": "more"})

        async def speak(event: Json) -> None:
            if not said(house.heard, "custom"):
                await house.act("send_message", message=NOTE, deliverAs=deliver)

        house.on("tool_execution_start", speak)
        events = await house.prompt("go")
        roles = [one["message"]["role"] for one in of("message_end", events)]
        between = [] if deliver == "steer" else ["assistant"]
        assert roles == ["user", "assistant", "toolResult", *between, "custom", "assistant"]

    play(story())


def test_what_an_extension_says_for_the_user_is_taken_as_it_stands(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path)
        seen = house.notes("input")
        await house.act("send_user_message", content="/help me")
        await house.session.runs.idle()
        assert texts(house.heard, "user") == ["/help me"]
        assert seen == [{"type": "input", "text": "/help me", "images": [], "source": "extension"}]

    play(story())


def test_during_a_run_it_has_to_say_how_it_wants_to_be_heard(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path, endless("busy"))
        await house.session.input.submit("go", [], None)
        with pytest.raises(CommandError, match="deliverAs"):
            await house.act("send_user_message", content="hi")
        await house.act("send_user_message", content="later", deliverAs="followUp")
        assert of("queue_update", house.heard)[-1] == {"type": "queue_update", "steering": [], "followUp": ["later"]}
        await house.act("abort")
        assert not house.session.runs.busy

    play(story())


# What is kept, and looked at.


def test_entries_names_and_labels(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path)
        await house.prompt("first")
        await house.act("append_entry", customType="state", data={"n": 1})
        entry = (await house.act("get_branch"))[-1]
        assert (entry["type"], entry["customType"], entry["data"]) == ("custom", "state", {"n": 1})
        await house.act("set_label", entryId=entry["id"], label="here")
        assert await house.act("get_label", id=entry["id"]) == "here"
        await house.act("set_label", entryId=entry["id"])
        assert await house.act("get_label", id=entry["id"]) is None
        await house.act("set_session_name", name="work")
        assert session_facts(house.session)["sessionName"] == "work"
        assert await house.act("get_entry", id=entry["id"]) == entry
        assert await house.act("get_entry", id="nowhere") is None
        assert (await house.act("get_header"))["id"] == house.session.log.id
        assert (await house.act("get_tree"))[0]["entry"] == (await house.act("get_entries"))[0]
        with pytest.raises(CommandError, match="Entry not found: nowhere"):
            await house.act("set_label", entryId="nowhere", label="x")

    play(story())


def test_tools_are_chosen_from_all_there_are(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path, {"blocks": [{"tool": "bash", "arguments": {"command": "echo hi"}}]}, {"text": "done"})
        assert session_facts(house.session)["activeTools"] == ["read", "bash", "edit", "write"]
        assert {"grep", "ls"} < {tool["name"] for tool in await house.act("get_all_tools")}
        await house.act("set_active_tools", names=["ls", "nonsense"])
        assert session_facts(house.session)["activeTools"] == ["ls"]
        assert "- ls:" in await house.act("get_system_prompt")
        (end,) = of("tool_execution_end", await house.prompt("go"))
        assert end["result"]["content"][0]["text"] == "Tool bash not found"

    play(story())


def test_models_and_levels(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path)
        assert await house.act("set_model", provider="nobody", modelId="x") is False
        await house.act("set_thinking_level", level="high")
        assert session_facts(house.session)["thinkingLevel"] == "high"
        assert await house.act("set_model", provider="tau", modelId="demo") is True
        assert session_facts(house.session)["model"]["id"] == "demo"
        assert set(await house.act("get_context_usage")) == {"tokens", "contextWindow", "percent"}

    play(story())


def test_models_of_an_extension_are_there_as_long_as_it_is(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path)
        extensions, models = house.session.extensions, house.session.models
        mine: dict[str, Any] = {
            "baseUrl": "http://127.0.0.1:1",
            "apiKey": "k",
            "api": "openai-completions",
            "models": [{"id": "m"}],
        }
        extensions.providers["mine"] = mine
        there = register_providers(models, extensions, set())
        assert [model.id for model in models.available if model.provider == "mine"] == ["m"]
        extensions.providers["broken"] = {"models": 5}
        assert register_providers(models, extensions, there) == {"mine"}
        extensions.providers.clear()
        register_providers(models, extensions, there)
        assert [model.id for model in models.available if model.provider == "mine"] == []

    play(story())


def test_an_extension_waits_until_nothing_runs_and_may_end_the_program(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path)
        left = asyncio.Event()
        house.session.request_exit = left.set
        await house.session.input.submit("go", [], None)
        await house.act("wait_for_idle")
        assert house.heard[-1]["type"] == "agent_settled"
        await house.act("shutdown")
        assert left.is_set()

    play(story())
