"""Starts the real program and talks to it as any client would: over pipes, in folders of its own.

Nothing here sleeps. Every wait is for a record, for room in a pipe or for the
end of a process; it has a deadline, and failing it shows what was said so far.
When an Agent is left, every line of its stdout must have been a record, and its
stderr must be without a traceback: no test has to ask.

TAU_RPC may name another command line (by default this tau, in RPC mode), so that
the same tests can be pointed at another implementation.
"""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from support.rpc_conversation import SHOWN, WITHIN, Conversation, Json, as_record

__all__ = ["SHOWN", "WITHIN", "Json", "as_record"]
PORTION = 1 << 20
KEYS = re.compile(r"(_API_KEY|_TOKEN|_BASE_URL)$|^(ANTHROPIC|AWS|AZURE|GCLOUD|GOOGLE|OLLAMA|OPENAI|PI|TAU)_")


def command_line() -> list[str]:
    named = os.environ.get("TAU_RPC")
    return shlex.split(named) if named else [sys.executable, "-m", "tau", "--mode", "rpc"]


def scripted(folder: Path, *answers: Json) -> list[str]:
    """The command line, with a model that says this; "ok" to everything if nothing is given."""
    script = folder / "script.json"
    script.write_text(json.dumps({"answers": answers or [{"text": "ok"}]}))
    return [*command_line(), "--model", "scripted", "--script", str(script)]


def surroundings(folder: Path, settings: Json | None = None, models: Json | None = None) -> dict[str, str]:
    """Fresh folders below `folder`, and the environment that points there. No key of the tester's gets in."""
    for name in ("home", "agent", "work"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name, content in (("settings", settings), ("models", models)):
        if content is not None:
            (folder / "agent" / f"{name}.json").write_text(json.dumps(content))
    kept = {name: value for name, value in os.environ.items() if not KEYS.search(name)}
    folders = {"HOME": str(folder / "home"), "PI_CODING_AGENT_DIR": str(folder / "agent")}
    return {**kept, **folders}


class Agent(Conversation):
    """One running program. `answers` is the script of its model; without any it says "ok" to everything.

    With `listening=False` nothing is read until `listen` is called: a client that
    has stopped. `stdin` may be a descriptor, for input that is no pipe of ours.
    `program` is another command line for one that is not `offline`.
    """

    def __init__(
        self,
        folder: Path,
        *answers: Json,
        settings: Json | None = None,
        models: Json | None = None,
        args: Sequence[str] = (),
        offline: bool = True,
        program: Sequence[str] = (),
        listening: bool = True,
        stdin: int = subprocess.PIPE,
        env: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(folder)
        env = {**surroundings(folder, settings, models), **env}
        self._stderr = folder / "stderr"
        argv = [*(scripted(folder, *answers) if offline else program or command_line()), *args]
        with self._stderr.open("wb") as stderr:
            self.process = subprocess.Popen(
                argv, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, cwd=self.cwd, env=env, bufsize=0
            )
        self.pid = self.process.pid
        self._ear: threading.Thread | None = None
        if listening:
            self.listen()

    def write(self, data: bytes, *, within: float = WITHIN) -> None:
        """Exactly these bytes, however long the other side takes to read them."""
        pipe = self._stdin()
        os.set_blocking(pipe, False)
        view, until = memoryview(data), time.monotonic() + within
        while view:
            if not ready(pipe, select.POLLOUT, until - time.monotonic()):
                self.fail(f"{len(view)} of {len(data)} bytes were not taken within {within} s")
            try:
                view = view[os.write(pipe, view) :]
            except BrokenPipeError:
                self.fail("nobody reads stdin any more")

    def close(self) -> None:
        """Nothing more will be said."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def deafen(self) -> None:
        """Close our end of its stdout. Only for an agent that is not listened to."""
        assert self._ear is None and self.process.stdout is not None
        self.process.stdout.close()

    def _stdin(self) -> int:
        assert self.process.stdin is not None
        return self.process.stdin.fileno()

    # Hearing.

    def listen(self) -> None:
        self._ear = threading.Thread(target=self._hear, daemon=True)
        self._ear.start()

    def _hear(self) -> None:
        assert self.process.stdout is not None
        while portion := self.process.stdout.read(PORTION):
            self._received(portion)
        self._received(b"")

    # The end.

    def exit_code(self, *, within: float = WITHIN) -> int:
        """Wait for the process to end by itself. Minus a number: killed by that signal."""
        try:
            code = self.process.wait(within)
        except subprocess.TimeoutExpired:
            self.fail(f"still running after {within} s")
        if self._ear is not None:
            self.heard_all()
        return code

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> None:
        """Ask first: then it takes its children with it."""
        if self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self._ear is not None:
            self._ear.join(WITHIN)
        if self.process.stdout is not None:
            self.process.stdout.close()

    # What it is and was.

    @property
    def code(self) -> int | None:
        return self.process.poll()

    @property
    def stderr(self) -> str:
        return self._stderr.read_text(errors="replace")

    @property
    def memory(self) -> int:
        """The most memory it ever had, in bytes."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
        assert found
        return int(found[1]) * 1024

    @property
    def cpu(self) -> float:
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# Reading events.


def kinds(events: Iterable[Json]) -> list[str]:
    """Their types in order; a row of updates counts as one."""
    told: list[str] = []
    for event in events:
        if not (event["type"].endswith("_update") and told and told[-1] == event["type"]):
            told.append(event["type"])
    return told


def of(kind: str, events: Iterable[Json]) -> list[Json]:
    return [event for event in events if event["type"] == kind]


def said(events: Iterable[Json], role: str) -> list[Json]:
    """The messages of a role that were ended, in order."""
    return [event["message"] for event in of("message_end", events) if event["message"]["role"] == role]


def text(message: Json) -> str:
    return "".join(block["text"] for block in message["content"] if block["type"] == "text")


def texts(events: Iterable[Json], role: str) -> list[str]:
    return [text(message) for message in said(events, role)]


def joined_deltas(events: Iterable[Json], kind: str = "text_delta") -> str:
    updates = (event["assistantMessageEvent"] for event in of("message_update", events))
    return "".join(update["delta"] for update in updates if update["type"] == kind)


def piece(event: Json) -> bool:
    """Whether a piece of an answer's text arrived."""
    return bool(event["type"] == "message_update" and event["assistantMessageEvent"]["type"] == "text_delta")


# Scripts.


def calls(*commands: str, **more: Any) -> Json:
    """An answer that runs shell commands."""
    blocks = [
        {"tool": "bash", "arguments": {"command": command}, "id": f"call_{at}"} for at, command in enumerate(commands)
    ]
    return {"blocks": blocks, **more}


def endless(*pieces: str) -> Json:
    """An answer that never comes to its end."""
    return {"blocks": [{"text": list(pieces)}], "hangAfter": len(pieces)}


# Processes and time.


def ready(handle: int, what: int, within: float) -> bool:
    """Not by select, which knows only the first thousand descriptors."""
    poll = select.poll()
    poll.register(handle, what)
    return bool(poll.poll(max(0.0, within) * 1000))


class Pipe:
    """A named pipe, by which a command can tell that it has come to a point, or wait for us."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._heard = b""
        os.mkfifo(path)
        # For both: so that neither side has to wait for the other to open it.
        self._handle = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._handle)

    def line(self, *, within: float = WITHIN) -> str:
        """The next line that somebody writes into it."""
        until = time.monotonic() + within
        while b"\n" not in self._heard:
            assert ready(self._handle, select.POLLIN, until - time.monotonic()), (
                f"nobody wrote to {self.path} within {within} s"
            )
            self._heard += os.read(self._handle, 4096)
        line, _, self._heard = self._heard.partition(b"\n")
        return line.decode()

    def say(self, line: str = "go") -> None:
        os.write(self._handle, line.encode() + b"\n")


def is_gone(pid: int, *, within: float) -> bool:
    """Whether a process, ours or not, ends in time.

    A state read from /proc would not do: after Z (zombie) and before it is gone, a process is X for a moment.
    """
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return ready(handle, select.POLLIN, within)
    finally:
        os.close(handle)


def quick(measure: Callable[[], float], limit: float, tries: int = 3) -> None:
    """A loaded machine may be slow once or twice, but not each time, and garbage is not collected each time."""
    taken: list[float] = []
    while not taken or min(taken) > limit:
        assert len(taken) < tries, f"seconds, of at most {limit}: {taken}"
        taken.append(measure())
