"""A session says the same on pipes and in memory."""

from __future__ import annotations

from pathlib import Path

from support import rpc_memory, rpc_process
from support.rpc_conversation import Conversation, Json
from support.rpc_process import calls

CHANGING = {"timestamp", "sessionId", "sessionFile", "seconds", "duration"}


def scrubbed(value: object, folder: Path) -> object:
    if isinstance(value, dict):
        return {name: scrubbed(part, folder) for name, part in value.items() if name not in CHANGING}
    if isinstance(value, list):
        return [scrubbed(part, folder) for part in value]
    return value.replace(str(folder), "") if isinstance(value, str) else value


def told(agent: Conversation, folder: Path) -> list[Json]:
    """A run with a tool, commands that fail, and the end of the input. Without updates: they are merged by time."""
    with agent:
        assert agent.get("get_state")["messageCount"] == 0
        agent.prompt("run it")
        agent.ask("bash", command="echo hello")
        agent.answer_to(b'{"id":"\xe2\x80\xa8","type":"fly"}')
        agent.answer_to(b"{")
        agent.ask("set_model", provider="nowhere", modelId="none")
        agent.get("get_messages")
        agent.close()
        assert agent.exit_code() == 0
        return [scrubbed(one, folder) for one in agent.records if not one["type"].endswith("_update")]  # type: ignore[misc]


def test_records_are_the_same_on_pipes_and_in_memory(tmp_path: Path) -> None:
    script = calls("echo working"), {"text": "done"}
    first, second = tmp_path / "pipes", tmp_path / "memory"
    on_pipes = told(rpc_process.Agent(first, *script), first)
    assert on_pipes == told(rpc_memory.Agent(second, *script), second)
    assert len(on_pipes) > 15


def test_agents_in_one_process_share_neither_folders_nor_environment(tmp_path: Path) -> None:
    agents = [
        rpc_memory.Agent(
            tmp_path / f"{at}", calls('printf "$PWD $MINE"'), {"text": f"I am {at}"}, env={"MINE": f"value {at}"}
        )
        for at in range(8)
    ]
    try:
        ids = [agent.send("prompt", message="who are you?") for agent in agents]
        for at, (agent, id) in enumerate(zip(agents, ids, strict=True)):
            assert agent.response(id)["success"]
            events = agent.settled()
            (result,) = (event["result"] for event in events if event["type"] == "tool_execution_end")
            assert result["content"][0]["text"] == f"{agent.cwd} value {at}"
            assert agent.get("get_last_assistant_text") == {"text": f"I am {at}"}
    finally:
        for agent in agents:
            agent.end()
