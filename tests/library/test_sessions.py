"""Sessions, models and settings, asked for in Python's words."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import tau
from support.anthropic_server import ModelServer
from support.library_agent import calls, descriptors, opened, play, says
from tau import events


def texts(agent: tau.Agent) -> list[str]:
    return [
        block.text
        for message in agent.messages()
        if isinstance(message, events.User | events.Assistant)
        for block in message.content
        if isinstance(block, events.Text)
    ]


def test_a_session_in_memory_has_no_file(tmp_path: Path) -> None:
    async def story() -> Any:
        async with opened(tmp_path) as agent:
            await agent.prompt("hi")
            return agent.session_file, await agent.sessions()

    assert play(story()) == (None, [])
    assert list((tmp_path / "agent").rglob("*.jsonl")) == []


def test_a_session_is_found_again_by_path_by_id_and_as_the_newest(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, session=True, name="first") as agent:
            await agent.prompt("hi")
            file, id = agent.session_file, agent.session_id
            (row,) = await agent.sessions()
            assert (row.path, row.name) == (str(file), "first")
        for again in ({"session": file}, {"session": id[:13]}, {"session": True, "resume": True}):
            async with opened(tmp_path, **again) as agent:
                assert (agent.session_id, agent.name, texts(agent)) == (id, "first", ["hi", "ok"])
        async with opened(tmp_path, session=True, fork_of=file) as agent:
            assert agent.session_id != id and texts(agent) == ["hi", "ok"]

    play(story())


def test_an_agent_can_fork_clone_navigate_and_start_a_new_session(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, says("a"), says("b"), says("c")) as agent:
            await agent.prompt("one")
            await agent.prompt("two")
            first, second = agent.fork_points()
            assert (await agent.fork(second.entry_id)).text == "two" and texts(agent) == ["one", "a"]
            assert await agent.clone() and texts(agent) == ["one", "a"]
            went = await agent.navigate(agent.fork_points()[0].entry_id)
            assert (went.editor_text, texts(agent)) == ("one", [])
            await agent.prompt("another")
            (root,) = [node for node in agent.tree() if node.children] or agent.tree()[:1]
            assert len(agent.entries()) > len(agent.entries(since=first.entry_id)) and root.entry.id
            assert await agent.new_session() and agent.messages() == []

    play(story())


def test_the_tree_is_as_deep_as_the_session_is_long(tmp_path: Path) -> None:
    async def story() -> int:
        async with opened(tmp_path) as agent:
            for _ in range(30):
                await agent.prompt("hi")
            depth, level = 0, agent.tree()
            while level:
                depth, level = depth + 1, [child for node in level for child in node.children]
            return depth - len(agent.entries())

    assert play(story()) == 0


def test_state_stats_and_the_like_are_records(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, calls("bash", command="true"), says("done")) as agent:
            await agent.prompt("hi")
            stats, usage = agent.stats(), agent.context_usage()
            assert (stats.user_messages, stats.tool_calls, agent.last_text()) == (1, 1, "done")
            assert usage is not None and usage.tokens
            assert (agent.state.message_count, agent.is_busy, agent.retry_attempt) == (4, False, 0)
            assert agent.model is not None and agent.model.id == "scripted"

    play(story())


def test_the_library_never_writes_settings(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, model="demo", script=None) as agent:
            await agent.set_thinking("high")
            await agent.set_steering_mode("all")
            await agent.set_auto_retry(False)
            await agent.set_auto_compaction(False)
            await agent.set_model("tau/demo")
            assert not agent.state.auto_compaction_enabled

    play(story())
    assert not (tmp_path / "agent" / "settings.json").exists()


def test_settings_of_the_caller_are_over_those_of_files(tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "settings.json").write_text(json.dumps({"steeringMode": "all", "followUpMode": "all"}))

    async def story() -> tuple[str, str]:
        async with opened(tmp_path, settings={"steeringMode": "one-at-a-time"}) as agent:
            return agent.state.steering_mode, agent.state.follow_up_mode

    assert play(story()) == ("one-at-a-time", "all")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"settings": {"steering_mode": "all"}}, "settings: there is no steering_mode"),
        ({"settings": {"steeringMode": "some"}}, "settings: steeringMode"),
        ({"cwd": "/no/such/folder"}, "there is no folder /no/such/folder"),
        ({"script": [{"txt": "x"}]}, "Invalid script"),
        ({"session": "no-such-id"}, "No session found"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(wrong: Any, words: str, tmp_path: Path) -> None:
    async def story() -> None:
        with pytest.raises(tau.UsageError, match=words):
            await opened(tmp_path, **wrong)

    play(story())


def test_the_system_prompt_is_the_callers_to_say(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "AGENTS.md").write_text("Always rhyme.")

    async def story() -> None:
        async with opened(tmp_path, system_prompt="Be brief.", append_system_prompt="And kind.") as agent:
            told = await agent.system_prompt()
            assert "Be brief." in told and "And kind." in told and "Always rhyme." in told
        async with opened(tmp_path, system_prompt="Be brief.", context_files=False) as agent:
            assert "Always rhyme." not in await agent.system_prompt()

    play(story())


def test_a_page_and_a_command_of_the_user(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, session=True) as agent:
            assert (await agent.bash("echo hi; exit 3")).exit_code == 3
            await agent.prompt("hi")
            page = await agent.export_html("page.html")
            assert page == tmp_path / "work" / "page.html" and page.read_text().startswith("<!")

    play(story())


def test_a_message_of_the_program_stands_in_the_conversation(tmp_path: Path) -> None:
    async def story() -> list[str]:
        async with opened(tmp_path) as agent:
            await agent.send_message("note", "remember this", details={"a": 1})
            await agent.prompt("hi")
            await agent.send_user_message("/as it stands")
            await agent.wait_idle()
            return [type(message).__name__ for message in agent.messages()]

    assert play(story()) == ["Custom", "User", "Assistant", "User", "Assistant"]


def test_a_model_on_a_server_is_asked_over_http_and_nothing_stays_open(tmp_path: Path) -> None:
    async def story(server: ModelServer) -> tau.Result:
        (tmp_path / "agent").mkdir()
        (tmp_path / "agent" / "models.json").write_text(json.dumps(server.models))
        async with opened(tmp_path, script=None, model="mock/m1") as agent:
            before = descriptors()
            result = await agent.prompt("list")
        while descriptors() > before:  # the server has its end of the connections in this process, too
            await asyncio.sleep(0.01)
        return result

    with ModelServer("$ echo hi", "Done.") as server:
        result = play(story(server))
        assert (result.text, len(result.messages), len(server.asked)) == ("Done.", 4, 2)


def test_a_key_of_the_caller_is_as_good_as_one_of_the_environment(tmp_path: Path) -> None:
    async def story() -> list[str]:
        async with opened(tmp_path, script=None, model="demo", keys={"anthropic": "sk-mine"}) as agent:
            return sorted({model.provider for model in agent.models()} & {"anthropic", "openai"})

    assert play(story()) == ["anthropic"]


def test_what_a_server_said_once_can_be_played_again_without_it(tmp_path: Path) -> None:
    async def story(**wanted: Any) -> str:
        async with opened(tmp_path, script=None, model="mock/m1", context_files=False, **wanted) as agent:
            return (await agent.prompt("hello")).text

    with ModelServer("Good morning.") as server:
        (tmp_path / "agent").mkdir()
        (tmp_path / "agent" / "models.json").write_text(json.dumps(server.models))
        assert play(story(record=tmp_path / "kept")) == "Good morning."
    assert play(story(replay=tmp_path / "kept")) == "Good morning."


def test_statistics_count_the_whole_session(tmp_path: Path) -> None:
    async def story() -> None:
        used = {"text": "so many words " * 200, "usage": {"input": 1000, "output": 1}}
        few = {"compaction": {"keepRecentTokens": 1, "enabled": False}}
        async with opened(tmp_path, used, settings=few) as agent:
            await agent.prompt("one")
            await agent.prompt("two")
            assert (agent.stats().tokens.input, agent.stats().total_messages) == (2000, 4)
            await agent.compact()
            after = agent.stats()
            assert (after.tokens.input > 2000, after.total_messages, len(agent.messages())) == (True, 4, 2)
            await agent.navigate(agent.entries()[0].id)
            assert (agent.stats().tokens, agent.messages()) == (after.tokens, [])

    play(story())


# Operations during a session switch.


@pytest.mark.parametrize(
    ("operation", "changed"),
    [
        (lambda agent: agent.set_name("new name"), lambda agent: agent.name == "new name"),
        (lambda agent: agent.set_model("demo"), lambda agent: agent.model.id == "demo"),
        (lambda agent: agent.send_message("note", "hello"), lambda agent: "note" in str(agent.entries())),
    ],
    ids=["set_name", "set_model", "send_message"],
)
def test_an_operation_during_a_switch_applies_to_the_new_session(tmp_path: Path, operation: Any, changed: Any) -> None:
    async def story() -> None:
        asked, go_on = asyncio.Event(), asyncio.Event()

        async def hold(event: Any) -> None:
            asked.set()
            await go_on.wait()

        async with opened(tmp_path, session=True, hooks={"session_before_switch": hold}) as agent:
            await agent.prompt("hi")
            left = agent.session_file
            switch = asyncio.create_task(agent.new_session())
            await asked.wait()
            before = left.read_bytes()
            change = asyncio.create_task(operation(agent))
            await asyncio.sleep(0)
            go_on.set()
            assert await switch
            await change
            assert agent.session_file != left and changed(agent)
            assert left.read_bytes() == before

    play(story())


def test_a_hook_inside_a_switch_neither_waits_for_it_nor_starts_another(tmp_path: Path) -> None:
    async def story() -> None:
        refused: list[str] = []

        async with opened(tmp_path, session=True) as agent:

            async def change(event: Any) -> None:
                await agent.set_name("the old session")
                try:
                    await agent.new_session()
                except tau.CommandError as error:
                    refused.append(str(error))

            agent.on("session_before_switch", change)
            await agent.prompt("hi")
            left = agent.session_file
            async with asyncio.timeout(20):
                assert await agent.new_session()
            assert refused == ["A session switch is in progress; a hook handler cannot start another one."]
            assert agent.name is None and b"the old session" in left.read_bytes()

    play(story())


@pytest.mark.parametrize("name", ["nonsense", "nonsense/model", "", "/"])
def test_a_model_that_does_not_exist_is_a_command_error(tmp_path: Path, name: str) -> None:
    async def story() -> None:
        async with opened(tmp_path) as agent:
            with pytest.raises(tau.CommandError):
                await agent.set_model(name)

    play(story())
