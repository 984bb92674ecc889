"""A bound channel without numbers says what a pipe says, byte for byte.

All tests of tests/rpc can be run through a host: TAU_TEST_SERVED=1 python -m pytest tests/rpc.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from support import rpc_memory, rpc_process, rpc_served
from support.host_process import HostProcess
from support.rpc_conversation import Conversation
from support.rpc_process import calls, endless

CHANGING = [
    (rb'"timestamp":\d+', b'"timestamp":0'),
    (rb'"timestamp":"[^"]*"', b'"timestamp":""'),
    (rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", b"ID"),
    (rb'"(entryId|id|parentId|leafId|targetId)":"[0-9a-f]{8}"', rb'"\1":"ENTRY"'),
    (rb"\d{4}-\d\d-\d\dT[-\d]+Z", b"TIME"),
    (rb'"(durationMs|seconds|modified|created)":[\d.]+', rb'"\1":0'),
    (rb',"timeout":60000', b""),  # of a permission question on a pipe; a host waits while the client is attached
]


class Lines:
    """Keeps the lines as they were."""

    lines: list[bytes]

    def _note(self, lines: Iterable[bytes]) -> None:
        self.lines = [*getattr(self, "lines", []), *lines]
        super()._note(lines)  # type: ignore[misc]


class Pipe(Lines, rpc_memory.Agent):
    pass


class Channel(Lines, rpc_served.Agent):
    pass


def run_with_tools(agent: Conversation) -> None:
    agent.prompt("run it")
    agent.get("get_messages")
    agent.get("get_session_stats")


def errors(agent: Conversation) -> None:
    agent.answer_to(b'{"id":"\xe2\x80\xa8","type":"fly"}')
    agent.answer_to(b"{")
    agent.answer_to(b'{"id":7}')
    agent.ask("set_model", provider="nowhere", modelId="none")
    agent.ask("prompt")
    agent.ask("fork", entryId="none")


def queues(agent: Conversation) -> None:
    agent.get("prompt", message="begin")
    agent.until("message_update")
    agent.get("steer", message="steered")
    agent.get("follow_up", message="later")
    agent.ask("prompt", message="refused")
    agent.get("clear_queue")
    agent.get("abort")
    agent.get("get_state")


def tree(agent: Conversation) -> None:
    agent.prompt("one")
    agent.prompt("two")
    points = agent.get("get_fork_messages")["messages"]
    agent.get("fork", entryId=points[1]["entryId"])
    agent.get("get_entries")
    agent.get("clone")
    agent.get("new_session")
    agent.get("get_tree")
    agent.get("set_session_name", name="named")
    agent.get("get_state")


def questions(agent: Conversation) -> None:
    agent.get("prompt", message="run it")
    *_, question = agent.until("extension_ui_request")
    answer = {"type": "extension_ui_response", "id": question["id"], "value": "Allow once"}
    agent.write(json.dumps(answer).encode() + b"\n")
    agent.settled()


def commands(agent: Conversation) -> None:
    agent.ask("bash", command="echo hello")
    for name in ("get_available_models", "get_commands", "get_protocol", "cycle_model", "get_last_assistant_text"):
        agent.get(name)
    agent.get("set_thinking_level", level="high")
    agent.get("set_budget", maxTurns=3)


def retries(agent: Conversation) -> None:
    agent.prompt("go")


SCENARIOS: dict[str, tuple[Callable[[Conversation], None], tuple[dict[str, object], ...], tuple[str, ...]]] = {
    "run with tools": (run_with_tools, (calls("echo working"), {"text": "done"}), ()),
    "errors": (errors, (), ()),
    "queues": (queues, (endless("working"),), ()),
    "tree": (tree, (), ()),
    "questions": (questions, (calls("echo working"), {"text": "done"}), ("--permissions", "ask")),
    "commands": (commands, (), ()),
    "retries": (retries, ({"error": {"message": "529 overloaded"}},), ()),
}


def said(agent: Pipe | Channel, folder: Path, scenario: Callable[[Conversation], None]) -> list[bytes]:
    with agent:
        scenario(agent)
        agent.close()
        assert agent.exit_code() == 0
    return scrubbed(agent.lines, folder)


def scrubbed(given: Iterable[bytes], folder: Path) -> list[bytes]:
    """The lines without times, ids and paths, and without updates: those are merged by time."""
    lines, dashed = [], str(folder).replace("/", "-").encode()
    for line in given:
        for pattern, replacement in CHANGING:
            line = re.sub(pattern, replacement, line)
        if b'_update"' not in line[:40]:
            lines.append(line.replace(str(folder).encode(), b"").replace(dashed, b""))
    return lines


@pytest.mark.parametrize("dialect", ["default", "1.5"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_channel_says_what_a_pipe_says(tmp_path: Path, name: str, dialect: str) -> None:
    scenario, answers, args = SCENARIOS[name]
    settings = {"retry": {"baseDelayMs": 1}}
    first, second = tmp_path / "pipe", tmp_path / "host"
    flags = ("--dialect", dialect, *args)
    pipe = said(Pipe(first, *answers, args=flags, settings=settings), first, scenario)
    assert said(Channel(second, *answers, args=flags, settings=settings), second, scenario) == pipe
    assert len(pipe) > 5


class Process(Lines, rpc_process.Agent):
    pass


@pytest.mark.process
def test_the_socket_of_a_host_says_what_the_stdout_of_a_process_says(tmp_path: Path) -> None:
    answers = calls("echo working"), {"text": "done"}
    commands: list[dict[str, object]] = [
        {"type": "prompt", "message": "run it"},
        {"type": "get_messages"},
        {"type": "fly"},
        {"type": "bash", "command": "echo \u2028"},
        {"type": "get_entries"},
        {"type": "new_session"},
        {"type": "prompt", "message": "again"},
        {"type": "get_session_stats"},
    ]
    first, second = tmp_path / "pipe", tmp_path / "host"
    with Process(first, *answers) as pipe:
        for command in commands:
            pipe.ask(str(command["type"]), **{name: value for name, value in command.items() if name != "type"})
            if command["type"] == "prompt":
                pipe.settled()
    with HostProcess(second, *answers) as host:
        with host.client() as opening:
            session = opening.get("open_session", attach=False)["session"]
        with host.client(session=session, numbers=False) as client:
            for at, command in enumerate(commands, 1):
                id = f"{command['type']}-{at}"
                client.socket.sendall(json.dumps({"id": id, **command}).encode() + b"\n")
                client.until(lambda record, id=id: record.get("id") == id, 0)
                if command["type"] == "prompt":
                    settled = sum(one["type"] == "prompt" for one in commands[:at])
                    while [one["type"] for one in client.records].count("agent_settled") < settled:
                        client.read()
            assert scrubbed(client.lines[1:], second) == scrubbed(pipe.lines, first)
