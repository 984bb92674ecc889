"""A failed answer that was asked for again: out of the conversation for good, in the file for ever."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.rpc_agent import Agent
from support.rpc_process import Json, text

FAILED: Json = {"error": {"message": "529 overloaded", "after": 1}, "text": "half an answer"}
OVERFLOW: Json = {"error": {"message": "prompt is too long"}}
LONG = "so many words " * 200
SETTINGS: Json = {
    "compaction": {"keepRecentTokens": 3, "enabled": True},
    "retry": {"baseDelayMs": 1},
    "statsOf": "conversation",
}


def conversation(agent: Agent) -> list[str]:
    """What is said, after every way to count it has given the same number."""
    messages = agent.get("get_messages")["messages"]
    assert agent.get("get_state")["messageCount"] == len(messages)
    assert agent.get("get_session_stats")["totalMessages"] == len(messages)
    return [message.get("summary") or text(message) for message in messages]


def leaf(agent: Agent) -> str:
    return str(agent.get("get_tree")["leafId"])


def asked(folder: Path) -> list[Json]:
    """The messages of the last request, as an extension saw them."""
    return json.loads((folder / "asked.json").read_text())  # type: ignore[no-any-return]


def watched(folder: Path) -> list[str]:
    code = f"""
import json

def setup(pi):
    @pi.on("context")
    def context(event, ctx):
        with open({str(folder / "asked.json")!r}, "w") as file:
            json.dump(event["messages"], file)
"""
    (folder / "watch.py").write_text(code)
    return ["-e", str(folder / "watch.py")]


@pytest.mark.parametrize("how", ["nothing", "compact", "navigate", "same place", "clone", "fork", "reopen"])
def test_a_failed_answer_that_was_retried_does_not_come_back(tmp_path: Path, how: str) -> None:
    answers = [{"text": LONG}, FAILED, {"text": "whole"}, {"text": "next"}]
    if how == "compact":
        answers.insert(3, {"text": "a summary"})
    with Agent(tmp_path, *answers, settings=SETTINGS, args=watched(tmp_path)) as agent:
        agent.prompt(LONG)
        agent.prompt("again")
        kept = [LONG, LONG, "again", "whole"]
        assert conversation(agent) == kept
        place = leaf(agent)
        if how == "compact":
            agent.get("compact")
            kept = ["a summary", "again", "whole"]
        elif how == "same place":
            agent.get("navigate", entryId=place)
        elif how == "navigate":
            agent.prompt("elsewhere")
            agent.get("navigate", entryId=place)
        elif how == "clone":
            agent.get("clone")
        elif how == "fork":
            agent.prompt("elsewhere")
            agent.get("fork", entryId=agent.get("get_fork_messages")["messages"][-1]["entryId"])
        if how != "reopen":
            assert conversation(agent)[-2:] == kept[-2:] and len(conversation(agent)) == len(kept)
        file = agent.get("get_state")["sessionFile"]
    arguments = ["--session", file, *watched(tmp_path)]
    with Agent(tmp_path, {"text": "next"}, settings=SETTINGS, args=arguments) as agent:
        if how != "navigate":  # a session that is opened again is at its last entry
            assert len(conversation(agent)) == len(kept)
        assert "half an answer" not in conversation(agent)
        agent.prompt("go on")
        assert "half an answer" not in json.dumps(asked(tmp_path))
        assert conversation(agent)[-2:] == ["go on", "next"]
    lines = [json.loads(line) for line in Path(file).read_text().splitlines()]
    assert [one["type"] for one in lines].count("context_edit") == 1


@pytest.mark.parametrize("again", [False, True])
def test_an_answer_that_overflowed_is_left_out_when_its_question_is_asked_again(tmp_path: Path, again: bool) -> None:
    answers = [{"text": LONG}, OVERFLOW, {"text": "a summary"}, {"text": "whole"}]
    with Agent(tmp_path, *answers, settings=SETTINGS) as agent:
        agent.prompt(LONG)
        agent.prompt("much too much")
        assert conversation(agent)[1:] == ["much too much", "whole"]
        if again:
            agent.get("navigate", entryId=leaf(agent))
            assert conversation(agent)[1:] == ["much too much", "whole"]
    with Agent(tmp_path, settings=SETTINGS, args=["--continue"]) as agent:
        assert conversation(agent)[1:] == ["much too much", "whole"]


def test_a_failed_answer_of_an_older_file_without_a_mark_stays_where_it_is(tmp_path: Path) -> None:
    time, usage = "2026-03-15T10:00:00.000Z", {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0}
    failed = {"role": "assistant", "content": [], "api": "x", "provider": "p", "model": "m", "usage": usage}
    messages: list[Json] = [
        {"role": "user", "content": "hi", "timestamp": 1},
        {**failed, "stopReason": "error", "errorMessage": "529", "timestamp": 2},
        {**failed, "stopReason": "stop", "timestamp": 3, "content": [{"type": "text", "text": "whole"}]},
    ]
    lines: list[Json] = [{"type": "session", "version": 3, "id": "old", "timestamp": time, "cwd": ""}]
    for at, message in enumerate(messages):
        parent = f"e{at - 1}" if at else None
        lines.append({"type": "message", "id": f"e{at}", "parentId": parent, "timestamp": time, "message": message})
    path = tmp_path / "old.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with Agent(tmp_path, args=["--session", str(path)]) as agent:
        assert len(agent.get("get_messages")["messages"]) == agent.get("get_state")["messageCount"] == 3
