"""Stop means stop: whatever ends a command, nothing of it is alive two seconds later.

What else becomes of the children that commands leave behind, and what of the environment they get.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.stubborn_commands import COMMANDS, ENDINGS, Agent, left_after, runs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Callable[..., Agent]]:
    started: list[Agent] = []

    def start(*answers: list[dict[str, Any]]) -> Agent:
        started.append(Agent(tmp_path, *answers))
        return started[-1]

    yield start
    for agent in started:
        agent.close()


@pytest.mark.promise("B09", "B10", "B11", "B12", "B13", "B14", "B15", "B19", "F06")
@pytest.mark.parametrize("kind", COMMANDS)
@pytest.mark.parametrize("ending", ENDINGS)
def test_nothing_is_left(ending: str, kind: str, tmp_path: Path) -> None:
    assert left_after(ending, kind, tmp_path) == set()


# Background children

LEAVE = {"command": "setsid sleep 300 >/dev/null 2>&1 & echo $!"}
WAIT = {"command": "echo ready; sleep 300"}


@pytest.mark.promise("F01")
def test_a_child_left_behind_lives_through_the_next_command_and_run(agents: Callable[..., Agent]) -> None:
    agent = agents([LEAVE], [{"command": "echo next"}])
    agent.tell(type="prompt", message="go")
    agent.until("tool_execution_start")
    began = time.monotonic()
    child = int(agent.result())
    assert time.monotonic() - began < 10
    assert agent.result() == "next\n"
    agent.until("agent_settled")
    agent.tell(type="prompt", message="go")
    agent.until("agent_settled")
    assert runs(child)


@pytest.mark.promise("F01")
def test_an_abort_ends_what_its_run_left_behind_and_nothing_else(agents: Callable[..., Agent]) -> None:
    agent = agents([LEAVE], [], [LEAVE], [WAIT])
    agent.tell(type="prompt", message="go")
    of_first_run = int(agent.result())
    agent.until("agent_settled")
    agent.tell(type="bash", command=LEAVE["command"])
    of_client = int(agent.until("response", command="bash")["data"]["output"])
    agent.tell(type="prompt", message="go")
    of_second_run = int(agent.result())
    agent.until_said("ready")
    agent.tell(type="abort")
    agent.until("response", command="abort", success=True)
    assert agent.left(lambda: {of_second_run} if runs(of_second_run) else set()) == set()
    assert runs(of_first_run)
    assert runs(of_client)


def test_a_new_session_ends_what_the_old_one_left_behind(agents: Callable[..., Agent]) -> None:
    agent = agents([LEAVE])
    agent.tell(type="prompt", message="go")
    child = int(agent.result())
    agent.until("agent_settled")
    agent.tell(type="new_session")
    agent.until("response", command="new_session", success=True)
    assert agent.left(lambda: {child} if runs(child) else set()) == set()


@pytest.mark.promise("F01")
def test_the_end_of_the_agent_ends_what_was_left_behind(agents: Callable[..., Agent]) -> None:
    agent = agents([LEAVE])
    agent.tell(type="prompt", message="go")
    child = int(agent.result())
    agent.until("agent_settled")
    assert runs(child)
    assert agent.process.stdin
    agent.process.stdin.close()
    assert agent.process.wait() == 0
    assert agent.left(agent.commands) == set()


# The environment


@pytest.mark.promise("F07")
@pytest.mark.parametrize(("filtered", "seen"), [(True, "kept  true pi\n"), (False, "kept hush true pi\n")])
def test_a_setting_keeps_secrets_from_commands(
    filtered: bool, seen: str, tmp_path: Path, agents: Callable[..., Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_API_KEY", "hush")
    monkeypatch.setenv("ACME_NAME", "kept")
    (tmp_path / "settings.json").write_text(json.dumps({"childEnvironment": {"filterSecrets": filtered}}))
    agent = agents([{"command": 'echo "$ACME_NAME $ACME_API_KEY $PI_CODING_AGENT $AI_AGENT"'}])
    agent.tell(type="prompt", message="go")
    assert agent.result() == seen
