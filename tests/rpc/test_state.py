"""get_state, whose JSON is reused until something changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.rpc_agent import Agent
from support.rpc_process import Json, endless, piece

LAB = {
    "baseUrl": "http://127.0.0.1:9",
    "apiKey": "none",
    "api": "scripted",
    "models": [{"id": "thinks", "reasoning": True}, {"id": "other", "reasoning": True}],
}
CHANGES: tuple[tuple[str, Json, str, Any], ...] = (
    ("set_steering_mode", {"mode": "all"}, "steeringMode", "all"),
    ("set_follow_up_mode", {"mode": "all"}, "followUpMode", "all"),
    ("set_auto_compaction", {"enabled": False}, "autoCompactionEnabled", False),
    ("set_session_name", {"name": "one"}, "sessionName", "one"),
    ("set_session_name", {"name": "two"}, "sessionName", "two"),
    ("set_thinking_level", {"level": "high"}, "thinkingLevel", "high"),
    ("set_thinking_level", {"level": "low"}, "thinkingLevel", "low"),
)


def state(agent: Agent) -> Json:
    found: Json = agent.get("get_state")
    assert agent.get("get_state") == found
    return found


@pytest.mark.process
def test_the_state_shows_every_change_at_once_and_nothing_else(tmp_path: Path) -> None:
    with Agent(tmp_path, models={"providers": {"lab": LAB}}) as agent:
        agent.get("set_model", provider="lab", modelId="thinks")
        before = state(agent)
        for command, arguments, name, value in CHANGES:
            agent.get(command, **arguments)
            after = state(agent)
            assert after == {**before, name: value}, command
            before = after
        agent.get("set_model", provider="lab", modelId="other")
        assert state(agent)["model"]["id"] == "other"


@pytest.mark.process
def test_the_state_follows_a_run_and_its_queue(tmp_path: Path) -> None:
    with Agent(tmp_path, endless("so")) as agent:
        idle = state(agent)
        agent.ask("prompt", message="go")
        agent.until(piece)
        running = state(agent)
        assert running["isStreaming"] and running["messageCount"] > idle["messageCount"]
        agent.ask("follow_up", message="later")
        assert state(agent) == {**running, "pendingMessageCount": 1}
        agent.ask("clear_queue")
        assert state(agent) == running
        agent.ask("abort")
        stopped = state(agent)
        assert not stopped["isStreaming"] and stopped["messageCount"] == running["messageCount"] + 1
        agent.ask("new_session")
        assert state(agent)["sessionId"] != stopped["sessionId"]
