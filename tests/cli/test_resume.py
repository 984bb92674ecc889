"""pi --resume, at a real terminal and without one."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from support.rpc_process import Agent, surroundings

PI = [sys.executable, "-m", "tau", "--mode", "rpc", "--model", "demo", "--resume"]


def test_without_a_terminal_it_says_what_to_use_instead(tmp_path: Path) -> None:
    with Agent(tmp_path, {"text": "one"}) as agent:
        agent.prompt("first")
    done = subprocess.run(PI, cwd=agent.cwd, env=surroundings(tmp_path), input=b"", capture_output=True)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"--resume asks which session, so it needs a terminal" in done.stderr


def test_where_there_is_no_session_there_is_nothing_to_choose(tmp_path: Path) -> None:
    env = surroundings(tmp_path)
    done = subprocess.run(PI, cwd=tmp_path, env=env, input=b"", capture_output=True)
    assert (done.returncode, done.stderr) == (2, b"Error: There is no session of this project to resume.\n")


@pytest.mark.parametrize(("answer", "code"), [(b"1\n", 0), (b"7\n", 2)])
def test_at_a_terminal_the_chosen_session_is_gone_on_with(tmp_path: Path, answer: bytes, code: int) -> None:
    with Agent(tmp_path, {"text": "one"}) as agent:
        agent.prompt("first words")
        file = agent.get("get_state")["sessionFile"]
    ours, theirs = pty.openpty()
    env = surroundings(tmp_path)
    with subprocess.Popen(
        PI, cwd=agent.cwd, env=env, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        os.close(theirs)
        assert process.stdout and process.stderr
        listed = process.stderr.readline()
        assert listed.startswith(b"  1  ") and b"first words" in listed
        os.write(ours, answer)
        if code == 0:
            os.write(ours, b'{"type":"get_state"}\n')
            assert json.loads(process.stdout.readline())["data"]["sessionFile"] == file
            os.write(ours, b"\x04")
        assert process.wait(timeout=20) == code
    os.close(ours)
