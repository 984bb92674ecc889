"""`bash` commands that outlive a switch to another session: each belongs to the session in which it was started."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from support.rpc_agent import Agent
from support.rpc_process import Json

HOW = ["new_session", "switch_session", "fork", "clone"]


def until(file: Path) -> str:
    """A command that ends when there is a file, and says something."""
    return f"until [ -e {file} ]; do sleep 0.02; done; echo secret"


def file_of(agent: Agent) -> Path:
    return Path(agent.get("get_state")["sessionFile"])


def commands(messages: list[Json]) -> list[str]:
    return [message["output"] for message in messages if message["role"] == "bashExecution"]


def kept(path: Path) -> list[str]:
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    return commands([entry["message"] for entry in entries if entry["type"] == "message"])


def shown(agent: Agent) -> list[str]:
    return commands(agent.get("get_messages")["messages"])


def moved(agent: Agent, how: str, other: Path) -> None:
    fields: Json = {}
    if how == "switch_session":
        fields = {"sessionPath": str(other)}
    elif how == "fork":
        fields = {"entryId": agent.get("get_fork_messages")["messages"][-1]["entryId"]}
    assert agent.get(how, **fields)["cancelled"] is False


@pytest.mark.parametrize("how", HOW)
def test_the_output_is_recorded_where_the_command_was_started(tmp_path: Path, how: str) -> None:
    with Agent(tmp_path) as agent:
        agent.prompt("elsewhere")
        other = file_of(agent)
        agent.get("new_session")
        agent.prompt("one")
        agent.prompt("two")
        here = file_of(agent)
        running = agent.send("bash", command=until(tmp_path / "go"))
        moved(agent, how, other)
        there = file_of(agent)
        (tmp_path / "go").touch()
        assert agent.response(running)["data"]["output"] == "secret\n"
        assert (kept(here), shown(agent)) == (["secret\n"], [])
        agent.prompt("three")
        assert (kept(there), shown(agent)) == ([], [])
        agent.get("switch_session", sessionPath=str(here))
        assert shown(agent) == ["secret\n"]


def test_a_session_that_is_returned_to_while_its_command_runs_gets_its_output(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        agent.prompt("one")
        here = file_of(agent)
        running = agent.send("bash", command=until(tmp_path / "go"))
        for _ in range(2):
            agent.get("new_session")
            agent.get("switch_session", sessionPath=str(here))
        agent.prompt("two")
        (tmp_path / "go").touch()
        assert agent.response(running)["success"]
        assert (kept(here), shown(agent)) == (["secret\n"], ["secret\n"])
    with Agent(tmp_path, args=["--session", str(here)]) as agent:
        assert (shown(agent), agent.get("get_state")["messageCount"]) == (["secret\n"], 5)


@pytest.mark.process
def test_a_session_that_was_left_stays_locked_until_its_commands_have_ended(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        agent.prompt("one")
        here = file_of(agent)
        first = agent.send("bash", command=until(tmp_path / "first"))
        second = agent.send("bash", command=until(tmp_path / "second"))
        agent.get("new_session")
        (tmp_path / "first").touch()
        agent.response(first)
        with Agent(tmp_path / "b") as other:
            refused = other.ask("switch_session", sessionPath=str(here))
            assert (refused["success"], f"in use by process {agent.pid}" in refused["error"]) == (False, True)
            (tmp_path / "second").touch()
            agent.response(second)
            while not other.ask("switch_session", sessionPath=str(here))["success"]:
                pass  # it is synced before it is closed
            assert shown(other) == ["secret\n", "secret\n"]


@pytest.mark.process
def test_what_was_answered_survives_a_kill(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        agent.prompt("one")
        here = file_of(agent)
        running = agent.send("bash", command=until(tmp_path / "go"))
        agent.get("new_session")
        (tmp_path / "go").touch()
        agent.response(running)
        agent.signal(signal.SIGKILL)
        agent.exit_code()
    assert kept(here) == ["secret\n"]


@pytest.mark.process
@pytest.mark.parametrize("how", ["abort_bash", "SIGTERM", "end of input"])
def test_a_command_that_is_stopped_after_a_switch_is_recorded_too(tmp_path: Path, how: str) -> None:
    with Agent(tmp_path) as agent:
        agent.prompt("one")
        here = file_of(agent)
        running = agent.send("bash", command=f"echo begun; touch {tmp_path / 'begun'}; {until(tmp_path / 'go')}")
        while not (tmp_path / "begun").exists():
            pass
        agent.get("new_session")
        if how == "SIGTERM":
            agent.signal(signal.SIGTERM)
            assert agent.exit_code() == 128 + signal.SIGTERM
        elif how == "abort_bash":
            agent.get("abort_bash")
            assert agent.response(running)["data"]["cancelled"] is True
        else:
            agent.close()
            (tmp_path / "go").touch()
            assert agent.exit_code() == 0
    assert kept(here) == ["begun\nsecret\n" if how == "end of input" else "begun\n"]


def test_a_command_behind_a_switch_belongs_to_the_session_that_is_gone_to(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        agent.prompt("one")
        here = file_of(agent)
        agent.write(b'{"type":"new_session","id":"1"}\n{"type":"bash","command":"echo secret","id":"2"}\n')
        agent.response("2")
        assert (kept(here), shown(agent)) == ([], ["secret\n"])
