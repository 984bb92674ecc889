"""What pi 0.87 sends and older releases do not: system messages, details of the provider, `entry_appended`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from support.pi_releases import Server
from support.rpc_process import Agent, Json

MODEL = ("--provider", "mock", "--model", "m1")
QUICK = {"retry": {"baseDelayMs": 1}}


def agent(folder: Path, server: Server, dialect: str, *args: str, settings: Json | None = None) -> Agent:
    words = (*MODEL, "--dialect", dialect, *args)
    return Agent(folder, models=server.models, offline=False, args=words, settings=settings or QUICK)


def say(running: Agent, text: str) -> list[Json]:
    """Send a prompt, and return the events until it is settled."""
    start = len(running.events)
    running.get("prompt", message=text)
    running.until("agent_settled")
    return running.events[start:]


def roles(messages: Sequence[Json]) -> list[str]:
    return [message["role"] for message in messages]


def test_a_system_message_precedes_the_first_prompt_and_is_stored(tmp_path: Path) -> None:
    with Server("Hello.", "Again.") as server, agent(tmp_path, server, "1.5") as running:
        events = say(running, "one")
        started = [event["message"] for event in events if event["type"] == "message_start"]
        ended = [event["message"] for event in events if event["type"] == "message_end"]
        assert roles(started) == roles(ended) == ["system", "user", "assistant"]
        system = ended[0]
        assert started[0] == system and system["content"] == ""
        assert list(system["sections"]) == ["preamble", "tools", "rules", "cwd"]
        assert system["sections"]["cwd"] == f"<cwd>\n{tmp_path / 'work'}\n</cwd>"
        assert [tool["name"] for tool in system["toolsAdded"]] == ["read", "bash", "edit", "write"]
        assert "toolsRemoved" not in system
        (end,) = (event for event in events if event["type"] == "agent_end")
        assert roles(end["messages"]) == ["system", "user", "assistant"]
        assert roles([event["message"] for event in say(running, "two") if event["type"] == "message_end"]) == [
            *("user", "assistant"),
        ]
        assert roles(running.get("get_messages")["messages"]) == ["system", *["user", "assistant"] * 2]
        state = running.get("get_state")
        assert state["messageCount"] == 5
        assert [message["role"] for message in server.asked[-1]["messages"]] == ["user", "assistant", "user"]
    lines = [json.loads(line) for line in Path(state["sessionFile"]).read_text().splitlines()]
    assert next(line["message"] for line in lines if line["type"] == "message") == system


def test_a_system_message_of_a_continued_session_has_only_the_changes(tmp_path: Path) -> None:
    with Server("Hello.", "Again.", "More.") as server:
        with agent(tmp_path, server, "1.5") as running:
            say(running, "one")
        (tmp_path / "work" / "AGENTS.md").write_text("Be kind.")
        with agent(tmp_path, server, "1.5", "--continue", "--tools", "read,bash,grep") as running:
            (system, *_) = (event["message"] for event in say(running, "two") if event["type"] == "message_end")
            assert set(system["sections"]) == {"tools", "rules", "project_context"}
            assert [tool["name"] for tool in system["toolsAdded"]] == ["grep"]
            assert system["toolsRemoved"] == ["edit", "write"]
        with agent(tmp_path, server, "1.5", "--continue", "--tools", "read,bash,grep") as running:
            ended = [event["message"] for event in say(running, "three") if event["type"] == "message_end"]
            assert roles(ended) == ["user", "assistant"]


def test_a_compaction_keeps_the_system_message_before_the_summary(tmp_path: Path) -> None:
    settings = {**QUICK, "compaction": {"keepRecentTokens": 300}}
    long = "word " * 200
    with Server(long, long, "The summary.", "After.", "Later.") as server:
        with agent(tmp_path, server, "1.5", settings=settings) as running:
            (system, *_) = (event["message"] for event in say(running, long) if event["type"] == "message_end")
            say(running, long)
            result = running.get("compact")
            (kept, summary, *others) = running.get("get_messages")["messages"]
            assert kept == {**system, "timestamp": kept["timestamp"]} and kept["timestamp"] >= system["timestamp"]
            assert roles([summary, *others]) == ["compactionSummary", "user", "assistant"]
            assert running.get("get_state")["messageCount"] == 4
            declared = len("".join(system["sections"].values())) + len(json.dumps(system["toolsAdded"]))
            assert result["estimatedTokensAfter"] > declared // 5
            answered = [event["message"] for event in say(running, "and?") if event["type"] == "message_end"]
            assert roles(answered) == ["user", "assistant"]
            assert all(message["role"] != "system" for message in server.asked[-1]["messages"])
            file = Path(running.get("get_state")["sessionFile"])
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        assert next(line["systemMessage"] for line in lines if line["type"] == "compaction") == kept
        with agent(tmp_path, server, "1.5", "--continue", settings=settings) as running:
            assert roles(running.get("get_messages")["messages"])[:3] == ["system", "compactionSummary", "user"]
            assert roles([event["message"] for event in say(running, "more") if event["type"] == "message_end"]) == [
                *("user", "assistant"),
            ]


def test_the_first_prompt_stays_before_what_is_sent_with_it(tmp_path: Path) -> None:
    with Server("Hello.", "Again.") as server, agent(tmp_path, server, "1.5") as running:
        lines = [{"type": "prompt", "message": "one"}, {"type": "follow_up", "message": "two"}]
        running.write("".join(json.dumps(line) + "\n" for line in lines).encode())
        running.until("agent_settled")
        ended = [event["message"] for event in running.events if event["type"] == "message_end"]
        assert roles(ended) == ["system", *["user", "assistant"] * 2]
        assert [message["content"][0]["text"] for message in ended[1::2]] == ["one", "two"]


def test_the_provider_is_quoted(tmp_path: Path) -> None:
    with Server("Hello.") as server, agent(tmp_path, server, "1.5") as running:
        answer = next(event for event in say(running, "one") if event["type"] == "turn_end")["message"]
        assert (answer["stopReason"], answer["rawStopReason"]) == ("stop", "end_turn")
        assert answer["usage"]["cacheWrite1h"] == 0


def test_an_answer_that_is_left_out_is_announced(tmp_path: Path) -> None:
    with Server("!529", "Hello.") as server, agent(tmp_path, server, "1.5") as running:
        events = say(running, "one")
        kinds = [event["type"] for event in events]
        at = kinds.index("entry_appended")
        assert kinds[at - 1] == "auto_retry_start"
        edit = events[at]["entry"]
        assert (edit["type"], edit["replacement"], edit["parentId"]) == ("context_edit", None, edit["targetId"])
        assert edit in running.get("get_entries")["entries"]


@pytest.mark.parametrize("dialect", ["default", "0.73", "2026-03"])
def test_other_dialects_have_none_of_this(tmp_path: Path, dialect: str) -> None:
    with Server("!529", "Hello.") as server, agent(tmp_path, server, dialect) as running:
        running.get("prompt", message="one")
        running.until("auto_retry_end")
        running.until("agent_end")
        sent: Any = json.dumps([*running.events, running.get("get_messages")])
        for name in ("system", "entry_appended", "rawStopReason", "cacheWrite1h"):
            assert f'"{name}"' not in sent


def test_line_breaks_in_a_session_name_become_spaces(tmp_path: Path) -> None:
    with Server("Hello.") as server, agent(tmp_path, server, "1.5", "--name", "a\r\nb") as running:
        assert running.get("get_state")["sessionName"] == "a b"
        running.get("set_session_name", name=" one\n\ntwo\r\n")
        assert running.get("get_state")["sessionName"] == "one two"
        assert running.until("session_info_changed")[-1]["name"] == "one two"


EXTENSION = """
def setup(pi):
    @pi.command("pick")
    async def pick(args, ctx):
        picked = await ctx.ui.select("Pick", ["a", "b"])
        ctx.ui.notify(f"picked {picked}")

    @pi.command("fresh")
    async def fresh(args, ctx):
        await ctx.new_session()
        ctx.ui.notify("fresh")
"""


def test_the_response_to_a_command_comes_when_it_ends_and_its_dialogs_can_be_answered(tmp_path: Path) -> None:
    path = tmp_path / "extension.py"
    path.write_text(EXTENSION)
    with Server("Hello.") as server, agent(tmp_path, server, "1.5", "-e", str(path)) as running:
        id = running.send("prompt", message="/pick")
        asked = running.until("extension_ui_request")[-1]
        assert running.get("get_state")["isStreaming"] is False  # other commands are answered meanwhile
        assert not running.has_response(id)
        running.send("extension_ui_response", id=asked["id"], value="b")
        running.until(lambda event: event.get("message") == "picked b")
        assert running.response(id)["data"] == {"disposition": "handled"}
        id = running.send("prompt", message="/fresh")
        running.until(lambda event: event.get("message") == "fresh")
        assert running.response(id)["success"]
        id = running.send("prompt", message="/pick")
        running.until("extension_ui_request")
        running.get("abort")
        assert running.response(id)["success"]
        say(running, "and on")
