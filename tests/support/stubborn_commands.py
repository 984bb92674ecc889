"""Commands that do not want to end, and everything that has to end them, in the real program.

The scripted model calls them. Everything below the program inherits a variable
that nothing else on this computer has.
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
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

LIMIT = 2.0
PATIENCE = 30.0  # seconds for what has no figure: a loaded machine is slow
PAUSE = 0.1  # seconds between two looks; what it is more, this process was kept from looking, and others from ending
SOURCE = Path(__file__).parents[2] / "src"
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
            pid for pid in processes() if pid != self.process.pid and self.mark in _read(pid, "environ").split(b"\0")
        }

    def keepers(self) -> set[int]:
        """The runner and its keepers, which inherit nothing."""
        runners = {pid for pid in processes() if _parent(pid) == self.process.pid}
        return runners | {pid for pid in processes() if _parent(pid) in runners}

    def alive(self) -> set[int]:
        """Of the commands, the runner and its keepers."""
        return self.commands() | {pid for pid in self.seen if runs(pid)}

    def left(self, looked_for: Callable[[], set[int]], since: float | None = None) -> set[int]:
        """What is alive when it all should be over: two seconds from now, or from `since`.

        Seconds in which the whole machine stood still are not counted.
        """
        last = since or time.monotonic()
        over = last + LIMIT
        while (alive := looked_for()) and last < over:
            time.sleep(0.01)
            now = time.monotonic()
            over += max(0.0, now - last - PAUSE)
            last = now
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


def processes() -> list[int]:
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


def runs(pid: int) -> bool:
    """Its command line would not do: that is empty for a moment while a process replaces its program."""
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    return bool(fields) and fields[0] not in (b"Z", b"X")


class Ending(NamedTuple):
    """What ends a command. `code`: the agent ends too, its runner and keepers with it, and with this code."""

    begin: Callable[[Agent], None]
    code: int | None = None


def abort(agent: Agent) -> None:
    agent.tell(type="abort")


def hang_up(agent: Agent) -> None:
    assert agent.process.stdin and agent.process.stdout
    agent.process.stdin.close()
    agent.process.stdout.close()


def send(number: signal.Signals) -> Callable[[Agent], None]:
    return lambda agent: agent.process.send_signal(number)


def time_out(agent: Agent) -> None:
    assert agent.result().endswith(f"Command timed out after {TIMEOUT} seconds")


TIMEOUT = 2.5  # long enough for a command to start on a loaded machine
ENDINGS = {
    "abort": Ending(abort),
    "timeout": Ending(time_out),
    "client gone": Ending(hang_up, code=0),
    "SIGINT": Ending(send(signal.SIGINT), code=130),
    "SIGTERM": Ending(send(signal.SIGTERM), code=143),
    "SIGHUP": Ending(send(signal.SIGHUP), code=129),
    "SIGKILL": Ending(send(signal.SIGKILL), code=-9),
}


def left_after(name: str, kind: str, folder: Path) -> set[int]:
    """What is alive two seconds after the ending of a command of this kind."""
    ending, call = ENDINGS[name], {"command": COMMANDS[kind]}
    with closing(Agent(folder, [{**call, "timeout": TIMEOUT} if name == "timeout" else call])) as agent:
        agent.tell(type="prompt", message="go")
        agent.until_said("ready")
        if name != "timeout":
            _wait_for_all(agent)
        began = time.monotonic()
        ending.begin(agent)
        if ending.code is None:
            return agent.left(agent.commands, None if name == "timeout" else began)
        left = agent.left(agent.alive, began)
        code = agent.process.wait(PATIENCE)
        assert code == ending.code, f"it ended with {code}"
        return left


def _wait_for_all(agent: Agent) -> None:
    """Until the command has started all it starts."""
    until = time.monotonic() + PATIENCE
    while len(agent.commands()) < 2:  # a process that is just becoming another has no environment for a moment
        assert time.monotonic() < until
    agent.seen = agent.commands() | agent.keepers()
