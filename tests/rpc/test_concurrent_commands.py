"""Commands in one write: each takes effect in the order of the lines, and its response tells of its own effect.

Commands that are sent behind a session switch apply to the session that is switched to.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.rpc_agent import Agent
from support.rpc_process import Json, endless

SWITCHES = 200  # take longer than a short command


def in_one_write(agent: Agent, *commands: Json) -> list[str]:
    """Returns the ids."""
    ids = [f"burst-{at}" for at in range(len(commands))]
    lines = [json.dumps({"id": id, **command}) for id, command in zip(ids, commands, strict=True)]
    agent.write("".join(f"{line}\n" for line in lines).encode())
    return ids


def order(agent: Agent, ids: list[str]) -> list[str]:
    """The ids in the order of their responses."""
    for id in ids:
        agent.response(id)
    return [response["id"] for response in agent.responses if response.get("id") in ids]


def test_clear_queue_behind_new_session_clears_the_queue_of_the_new_session(tmp_path: Path) -> None:
    with Agent(tmp_path, endless("a")) as agent:
        agent.ask("prompt", message="one")
        agent.ask("steer", message="left")
        ids = in_one_write(agent, {"type": "new_session"}, {"type": "clear_queue"})
        assert order(agent, ids) == ids
        assert agent.response(ids[1])["data"] == {"steering": [], "followUp": []}


def test_bash_behind_a_session_switch_runs_in_the_session_that_is_switched_to(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        agent.get("bash", command=":")  # the first command takes longer, in a session that is not looked at
        files: list[Any] = []
        for text in ("one", "two"):
            agent.get("new_session")
            agent.prompt(text)
            files.append(agent.get("get_state")["sessionFile"])
        switches = [{"type": "switch_session", "sessionPath": files[at % 2]} for at in range(SWITCHES)]
        ids = in_one_write(agent, *switches, {"type": "bash", "command": "echo hello"})
        assert order(agent, ids) == ids
        assert agent.get("get_state")["sessionFile"] == files[(SWITCHES - 1) % 2]
        assert [message["role"] for message in agent.get("get_messages")["messages"]][-1] == "bashExecution"
        agent.get("switch_session", sessionPath=files[SWITCHES % 2])
        assert "bashExecution" not in [message["role"] for message in agent.get("get_messages")["messages"]]


def test_a_prompt_between_two_session_switches_runs_in_the_session_between_them(tmp_path: Path) -> None:
    with Agent(tmp_path, {"text": "one"}, endless("a")) as agent:
        agent.prompt("one")
        ids = in_one_write(agent, {"type": "clone"}, {"type": "prompt", "message": "two"}, {"type": "new_session"})
        assert order(agent, ids) == ids
        assert agent.response(ids[1])["success"]
        assert agent.get("get_messages")["messages"] == []


def test_cycle_model_returns_the_level_of_its_own_model(tmp_path: Path) -> None:
    models = [{"id": id, "reasoning": True} for id in ("one", "two")]
    provider = {"baseUrl": "http://127.0.0.1:9", "apiKey": "none", "api": "scripted", "models": models}
    settings = {"defaultThinkingLevel": "medium"}
    with Agent(tmp_path, models={"providers": {"lab": provider}}, settings=settings) as agent:
        agent.get("set_model", provider="lab", modelId="one")
        ids = in_one_write(agent, {"type": "cycle_model"}, {"type": "set_thinking_level", "level": "off"})
        data = agent.response(ids[0])["data"]
        assert (data["model"]["id"], data["thinkingLevel"]) == ("two", "medium")
        agent.response(ids[1])
        assert agent.get("get_state")["thinkingLevel"] == "off"


def test_a_session_without_a_level_gets_one_entry_if_the_client_sets_it(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        agent.prompt("one")
        file = Path(agent.get("get_state")["sessionFile"])
        agent.close()
        assert agent.exit_code() == 0
    entries = [json.loads(line) for line in file.read_text().splitlines()]
    level = next(entry for entry in entries if entry["type"] == "thinking_level_change")
    kept = [
        {**entry, "parentId": level["parentId"]} if entry.get("parentId") == level["id"] else entry for entry in entries
    ]
    file.write_text("".join(f"{json.dumps(entry)}\n" for entry in kept if entry is not level))
    with Agent(tmp_path, args=["--session", str(file)]) as agent:
        agent.get("set_thinking_level", level="high")
        agent.prompt("two")
        changes = [e for e in agent.get("get_entries")["entries"] if e["type"] == "thinking_level_change"]
        assert [change["thinkingLevel"] for change in changes] == ["high"]
