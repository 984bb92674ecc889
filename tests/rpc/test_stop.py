"""Stop means stop: whatever ends a command, nothing of it is alive two seconds later.

The real program runs with the scripted model. Everything below it inherits a
variable that nothing else on this computer has.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

LIMIT = 2.0
SOURCE = Path(__file__).parent.parent.parent / "src"
DAEMON = "import os, time; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); time.sleep(300)"

# Each leaves something besides the shell, and the shell waits.
COMMANDS = {
    "plain": "sleep 300 & echo ready; sleep 300",
    "ignores TERM": "trap '' TERM INT HUP; sleep 300 & echo ready; while :; do sleep 300; done",
    "setsid": "setsid sleep 300 & echo ready; sleep 300",
    "double fork": f"{shlex.join([sys.executable, '-c', DAEMON])}; echo ready; sleep 300",
    "nohup": "nohup sleep 300 >/dev/null 2>&1 & echo ready; sleep 300",
}


class Agent:
    """The program, its client, and an eye on its processes."""

    def __init__(self, folder: Path, *answers: list[dict[str, Any]]) -> None:
        """Each answer of the model is a list of bash calls; then it says that it is done."""
        turns = [{"blocks": [{"tool": "bash", "arguments": call} for call in calls]} for calls in answers]
        (folder / "script.json").write_text(json.dumps({"answers": [*turns, {"text": "done"}]}))
        self.mark = f"TAU_TEST={secrets.token_hex(8)}".encode()
        name, _, value = self.mark.decode().partition("=")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tau", "--mode", "rpc", "--model", "scripted", "--script", "script.json"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(SOURCE), "PI_CODING_AGENT_DIR": str(folder), name: value},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.seen: set[int] = set()

    def tell(self, **command: Any) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(command).encode() + b"\n")
        self.process.stdin.flush()

    def until(self, type: str, **fields: Any) -> dict[str, Any]:
        """Read on until there is such a record."""
        assert self.process.stdout
        for line in self.process.stdout:
            record: dict[str, Any] = json.loads(line)
            if record["type"] == type and fields.items() <= record.items():
                return record
        raise AssertionError(f"the agent ended before {type}")

    def result(self) -> str:
        """What the next tool call says."""
        text: str = self.until("tool_execution_end")["result"]["content"][0]["text"]
        return text

    def until_said(self, word: str) -> None:
        """Until a command has said it; then its processes are known."""
        while word not in json.dumps(self.until("tool_execution_update")["partialResult"]):
            pass
        self.seen = self.commands() | self.keepers()

    def commands(self) -> set[int]:
        """What runs for a tool now."""
        return {
            pid for pid in _processes() if pid != self.process.pid and self.mark in _read(pid, "environ").split(b"\0")
        }

    def keepers(self) -> set[int]:
        """The runner and its keepers, which inherit nothing."""
        runners = {pid for pid in _processes() if _parent(pid) == self.process.pid}
        return runners | {pid for pid in _processes() if _parent(pid) in runners}

    def left(self, processes: Callable[[], set[int]]) -> set[int]:
        """What is alive when it all should be over."""
        over = time.monotonic() + LIMIT
        while (alive := processes()) and time.monotonic() < over:
            time.sleep(0.01)
        return alive

    def close(self) -> None:
        with suppress(BrokenPipeError):
            for pipe in (self.process.stdin, self.process.stdout):
                assert pipe
                pipe.close()
        self.process.kill()
        self.process.wait()
        for pid in self.commands():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal() and _read(int(name), "cmdline")]


def _read(pid: int, name: str) -> bytes:
    """b"" for what is gone, and for a zombie."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _parent(pid: int) -> int | None:
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    return int(fields[1]) if fields else None


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Callable[..., Agent]]:
    started: list[Agent] = []

    def start(*answers: list[dict[str, Any]]) -> Agent:
        started.append(Agent(tmp_path, *answers))
        return started[-1]

    yield start
    for agent in started:
        agent.close()


@pytest.fixture(params=COMMANDS)
def working(agents: Callable[..., Agent], request: pytest.FixtureRequest) -> Agent:
    """An agent whose command has started all it starts."""
    agent = agents([{"command": COMMANDS[request.param]}])
    agent.tell(type="prompt", message="go")
    agent.until_said("ready")
    until = time.monotonic() + LIMIT
    while len(agent.commands()) < 2:  # a process that is just becoming another has no environment for a moment
        assert time.monotonic() < until
    agent.seen = agent.commands() | agent.keepers()
    return agent


@pytest.mark.promise("B13", "B14", "B15")
def test_nothing_is_left_after_an_abort(working: Agent) -> None:
    working.tell(type="abort")
    assert working.left(working.commands) == set()
    working.until("response", command="abort", success=True)


@pytest.mark.promise("F06")
@pytest.mark.parametrize("kind", COMMANDS)
def test_nothing_is_left_after_a_timeout(kind: str, agents: Callable[..., Agent]) -> None:
    agent = agents([{"command": COMMANDS[kind], "timeout": 0.7}])
    agent.tell(type="prompt", message="go")
    agent.until_said("ready")
    assert agent.result().endswith("Command timed out after 0.7 seconds")
    assert agent.left(agent.commands) == set()


@pytest.mark.promise("B09")
def test_nothing_is_left_after_the_client_is_gone(working: Agent) -> None:
    assert working.process.stdin and working.process.stdout
    working.process.stdin.close()
    working.process.stdout.close()
    assert working.left(lambda: _alive(working)) == set()
    assert working.process.wait() == 0


@pytest.mark.promise("B10", "B11", "B12")
@pytest.mark.parametrize(("signal", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_nothing_is_left_after_a_signal(signal: signal.Signals, code: int, working: Agent) -> None:
    working.process.send_signal(signal)
    assert working.left(lambda: _alive(working)) == set()
    assert working.process.wait() == code


def _alive(agent: Agent) -> set[int]:
    """Of the commands, the runner and its keepers."""
    return agent.commands() | {pid for pid in agent.seen if _read(pid, "cmdline")}


# Background children

LEAVE = {"command": "setsid sleep 300 >/dev/null 2>&1 & echo $!"}
WAIT = {"command": "echo ready; sleep 300"}


def look(pid: int) -> bool:
    return bool(_read(pid, "cmdline"))


@pytest.mark.promise("F01")
def test_a_child_left_behind_lives_through_the_next_command_and_run(agents: Callable[..., Agent]) -> None:
    agent = agents([LEAVE], [{"command": "echo next"}])
    agent.tell(type="prompt", message="go")
    agent.until("tool_execution_start")
    began = time.monotonic()
    child = int(agent.result())
    assert time.monotonic() - began < 1
    assert agent.result() == "next\n"
    agent.until("agent_settled")
    agent.tell(type="prompt", message="go")
    agent.until("agent_settled")
    assert look(child)


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
    assert agent.left(lambda: {of_second_run} if look(of_second_run) else set()) == set()
    assert look(of_first_run)
    assert look(of_client)


def test_a_new_session_ends_what_the_old_one_left_behind(agents: Callable[..., Agent]) -> None:
    agent = agents([LEAVE])
    agent.tell(type="prompt", message="go")
    child = int(agent.result())
    agent.until("agent_settled")
    agent.tell(type="new_session")
    agent.until("response", command="new_session", success=True)
    assert agent.left(lambda: {child} if look(child) else set()) == set()


@pytest.mark.promise("F01")
def test_the_end_of_the_agent_ends_what_was_left_behind(agents: Callable[..., Agent]) -> None:
    agent = agents([LEAVE])
    agent.tell(type="prompt", message="go")
    child = int(agent.result())
    agent.until("agent_settled")
    assert look(child)
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
