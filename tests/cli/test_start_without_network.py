"""A start makes no connection and asks no name server, also without --offline: nothing is updated or counted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.other_systems import pretend
from support.rpc_process import Agent

# Writes down every attempt to reach something.
WATCH = """
import os, sys

EVENTS = {"socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname", "socket.getnameinfo"}


def watch(event, args):
    if event in EVENTS and not (event == "socket.connect" and isinstance(args[1], (str, bytes))):
        handle = os.open(os.environ["TAU_TEST_REACHED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(handle, f"{event} {args[1:]}\\n".encode())
        os.close(handle)


sys.addaudithook(watch)
"""


def watched(folder: Path) -> tuple[dict[str, str], Path]:
    reached = folder / "reached"
    return {**pretend(folder / "watch", WATCH), "TAU_TEST_REACHED": str(reached)}, reached


def test_the_watch_sees_a_connection(tmp_path: Path) -> None:
    env, reached = watched(tmp_path)
    code = "import socket; socket.socket().connect_ex(('127.0.0.1', 9)); socket.getaddrinfo('localhost', 1)"
    subprocess.run([sys.executable, "-c", code], env={**os.environ, **env}, check=True)
    assert [line.split()[0] for line in reached.read_text().splitlines()] == ["socket.connect", "socket.getaddrinfo"]


@pytest.mark.parametrize("flags", [["--help"], ["--version"], ["-p", "hello", "--model", "demo", "--no-session"]])
def test_a_command_reaches_nothing(tmp_path: Path, flags: list[str]) -> None:
    env, reached = watched(tmp_path)
    home = {"HOME": str(tmp_path), "PI_CODING_AGENT_DIR": str(tmp_path / "agent")}
    argv = [sys.executable, "-m", "tau", *flags]
    done = subprocess.run(argv, env={**os.environ, **env, **home}, cwd=tmp_path, capture_output=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert not reached.exists(), reached.read_text()


def test_a_client_that_starts_and_asks_reaches_nothing(tmp_path: Path) -> None:
    env, reached = watched(tmp_path)
    with Agent(tmp_path, env={**env, "ANTHROPIC_API_KEY": "no-key"}) as agent:
        agent.get("get_state")
        agent.get("get_available_models")
        agent.prompt("Hi")
    assert not reached.exists(), reached.read_text()
