"""No core file of tau and of what it starts: one would hold every key. And hardening in every front end."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.rpc_process import Agent, calls, surroundings

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads the limits of other processes from /proc")

WITHIN = 60.0
KEY = "sk-core-dump-1234567890"
PATTERN = Path("/proc/sys/kernel/core_pattern")
SETTINGS = {"childEnvironment": {"noNewPrivileges": True, "filterSecrets": True}}
# Leaves its process number where a test can find it, and how it may be ended.
EXTENSION = """
import os

def setup(pi):
    pi.command(f"pid-{os.getpid()}")(print)
"""
SERVER = """
import json, os, sys
open(sys.argv[1], "w").write(str(os.getpid()))
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") == "initialize":
        version, info = asked["params"]["protocolVersion"], {"name": "x", "version": "1"}
        result = {"protocolVersion": version, "capabilities": {}, "serverInfo": info}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@contextmanager
def unlimited_core_files() -> Iterator[None]:
    """What is started meanwhile may write core files of any size, as after `ulimit -c unlimited`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    if hard == 0:
        pytest.skip("core files are forbidden here")
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


def core_limit(pid: int) -> str:
    found = re.search(r"^Max core file size +(\S+)", Path(f"/proc/{pid}/limits").read_text(), re.MULTILINE)
    assert found
    return found[1]


def core_files(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob("core*") if path.is_file()]


def until(ready: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + WITHIN
    while not ready():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)


def test_nothing_that_an_agent_starts_writes_a_core_file(tmp_path: Path) -> None:
    """tau, its supervisor, a command, an extension and an MCP server."""
    (tmp_path / "x.py").write_text(EXTENSION)
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "agent").mkdir()
    server = {"command": sys.executable, "args": [str(tmp_path / "server.py"), str(tmp_path / "pid")]}
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"lab": server}}))
    answers = [calls("ulimit -S -c; ulimit -S -c unlimited; ulimit -S -c"), {"text": "done"}]
    args = ["-e", str(tmp_path / "x.py"), "--mcp-config", str(config)]
    with unlimited_core_files(), Agent(tmp_path, *answers, args=args) as agent:
        [command] = [one["name"] for one in agent.get("get_commands")["commands"] if one["name"].startswith("pid-")]
        events = agent.prompt("go")
        (result,) = [event["result"] for event in events if event["type"] == "tool_execution_end"]
        assert result["content"][0]["text"].split() == ["0", "unlimited"]  # a command may ask for one
        until((tmp_path / "pid").exists, agent.process)
        below = Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split()
        pids = {int(command.removeprefix("pid-")), int((tmp_path / "pid").read_text() or 0), *map(int, below)} - {0}
        assert {core_limit(pid) for pid in {agent.pid, *pids}} <= {"0", "1"}
        assert len(pids) >= 2
        agent.signal(signal.SIGSEGV)
        assert agent.exit_code() == -signal.SIGSEGV
    assert core_files(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGQUIT, signal.SIGABRT, signal.SIGILL, signal.SIGBUS])
def test_no_signal_makes_the_system_write_one(tmp_path: Path, number: signal.Signals) -> None:
    """The limit of one byte, compared with a process that has none."""
    if not re.fullmatch(r"core(\.%p)?\n?", PATTERN.read_text()):
        pytest.skip("core files do not go to the working folder here")
    code = "import sys; from tau.runtime.machine.core_dumps import forbid_core_dumps as f; sys.argv[1:] and f(); "
    code += (
        f"import os, signal, time; signal.signal({int(number)}, signal.SIG_DFL); os.kill(os.getpid(), {int(number)}); "
    )
    code += "time.sleep(60)"  # the signal comes first, unless it is ignored, as SIGQUIT is in the background of a shell
    dumped = []
    with unlimited_core_files():
        for words in ([], ["forbid"]):
            python = [sys.executable, "-c", f"import os; os.chdir({str(tmp_path)!r}); {code}", *words]
            pid = os.posix_spawn(sys.executable, python, os.environ)
            dumped.append(os.WCOREDUMP(os.waitpid(pid, 0)[1]))
    assert dumped == [True, False]


def _first_session(folder: Path) -> Iterator[dict[str, Any]]:
    yield {"id": 1, "method": "initialize", "params": {"protocolVersion": 1, "clientCapabilities": {}}}
    yield {"id": 2, "method": "session/new", "params": {"cwd": str(folder), "mcpServers": []}}


def test_print_mode_that_waits_for_its_prompt_writes_no_core_file(tmp_path: Path) -> None:
    env, nothing = surroundings(tmp_path), subprocess.DEVNULL
    argv = [sys.executable, "-m", "tau", "-p", "--model", "demo"]
    with unlimited_core_files():
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=nothing, stderr=nothing, env=env)
    try:
        until(lambda: core_limit(process.pid) in ("0", "1"), process)
    finally:
        process.kill()
        process.communicate()


LIMITS = """
import os, resource
from tau.runtime.machine.core_dumps import forbid_core_dumps

for soft, hard in ((-1, -1), (0, -1), (4096, 8192), (1, 1), (0, 0)):
    if not os.fork():
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
        forbid_core_dumps()
        print(*resource.getrlimit(resource.RLIMIT_CORE), flush=True)
        os._exit(0)
    os.wait()
"""


def test_the_limit_is_lowered_for_us_and_can_be_raised_by_what_we_start() -> None:
    with unlimited_core_files():
        done = subprocess.run([sys.executable, "-c", LIMITS], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["1 -1", "1 -1", "1 8192", "1 1", "0 0"]


def test_a_command_that_prints_a_key_writes_no_core_file(tmp_path: Path) -> None:
    provider = {
        "baseUrl": "http://127.0.0.1:9/v1",
        "api": "openai-completions",
        "apiKey": f"!ulimit -S -c >{tmp_path}/limit; echo key",
        "models": [{"id": "m1"}],
    }
    models, settings = {"providers": {"lab": provider}}, {"retry": {"enabled": False}}
    args = ["--provider", "lab", "--model", "m1"]
    with (
        unlimited_core_files(),
        Agent(tmp_path, models=models, settings=settings, args=args, offline=False) as agent,
    ):
        agent.prompt("go")
    assert (tmp_path / "limit").read_text() in ("0\n", "1\n")


FRONT_ENDS = {
    "rpc": ["--mode", "rpc"],
    "acp": ["acp"],
    "serve": ["serve", "--no-tcp"],
    "mcp serve": ["mcp", "serve"],
}


@pytest.mark.parametrize("words", FRONT_ENDS.values(), ids=FRONT_ENDS.keys())
def test_every_front_end_is_hardened_when_it_starts(words: list[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="tau-") as short:  # it contains a socket
        _check_hardened(Path(short), words)


def _check_hardened(folder: Path, words: list[str]) -> None:
    env = surroundings(folder, SETTINGS)
    argv = [sys.executable, "-m", "tau", *words, "--api-key", KEY, "--provider", "openai", "--model", "gpt-5.4"]
    with unlimited_core_files():
        nothing, pipe = subprocess.DEVNULL, subprocess.PIPE
        process = subprocess.Popen(argv, stdin=pipe, stdout=nothing, stderr=nothing, env=env, cwd=folder / "work")
    assert process.stdin is not None
    try:
        if words == ["acp"]:  # it reads its configuration with the first session
            for line in _first_session(folder):
                process.stdin.write(json.dumps({"jsonrpc": "2.0", **line}).encode() + b"\n")
            process.stdin.flush()
        status, cmdline = Path(f"/proc/{process.pid}/status"), Path(f"/proc/{process.pid}/cmdline")
        until(lambda: "NoNewPrivs:\t1" in status.read_text(), process)
        assert core_limit(process.pid) in ("0", "1")
        until(lambda: KEY.encode() not in cmdline.read_bytes(), process)
    finally:
        process.kill()
        process.communicate()
