"""Systems that tau is not developed on: without what only Linux has it works, and on Windows it says what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.library_agent import calls, says
from support.other_systems import NO_LINUX, WINDOWS, pretend
from support.rpc_process import Agent

ROOT = Path(__file__).parents[2]
SENTENCE = "tau does not run on Windows itself: use it in WSL"


def run(folder: Path, system: str, *argv: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **pretend(folder / "system", system), "PI_CODING_AGENT_DIR": str(folder / "agent")}
    return subprocess.run(
        [sys.executable, *argv], env=env, cwd=folder, capture_output=True, text=True, timeout=100, check=False
    )


@pytest.mark.parametrize(
    "argv",
    [
        ("-m", "tau", "--version"),
        ("-m", "tau", "-p", "hello"),
        ("-c", "import sys; sys.argv = ['pi', '--mode', 'rpc']; from tau.cli.entry import pi; pi()"),
    ],
)
def test_on_windows_a_program_ends_with_one_sentence(tmp_path: Path, argv: tuple[str, ...]) -> None:
    done = run(tmp_path, WINDOWS, *argv)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1 and SENTENCE in done.stderr


def test_on_windows_the_library_says_the_same(tmp_path: Path) -> None:
    done = run(tmp_path, WINDOWS, "-c", "import tau; print(tau.__version__); tau.open")
    assert done.stdout.strip() != ""
    assert done.stderr.splitlines()[-1].startswith(f"ImportError: {SENTENCE}")


def test_without_what_only_linux_has_the_demo_runs(tmp_path: Path) -> None:
    done = run(tmp_path, NO_LINUX, str(ROOT / "examples" / "demo.py"))
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout


def test_without_what_only_linux_has_a_client_works_with_tools_and_aborts(tmp_path: Path) -> None:
    answers = (
        calls("bash", command="echo one; echo two >&2; exit 3"),
        calls("write", path="notes.txt", content="a\nb\n"),
        calls("edit", path="notes.txt", edits=[{"oldText": "b", "newText": "c"}]),
        calls("read", path="notes.txt"),
        calls("grep", pattern="c"),
        says("done"),
        calls("bash", command="sleep 100 & sleep 100"),
    )
    flags = ["--tools", "bash,read,write,edit,grep"]
    with Agent(tmp_path, *answers, args=flags, env=pretend(tmp_path / "system", NO_LINUX)) as agent:
        events = agent.prompt("go")
        results = [event for event in events if event["type"] == "tool_execution_end"]
        assert [event["isError"] for event in results] == [True, False, False, False, False], results
        assert (agent.cwd / "notes.txt").read_text() == "a\nc\n"
        agent.get("prompt", message="again")
        agent.until("tool_execution_start")
        agent.get("abort")
        agent.settled()
        assert agent.get("bash", command="echo $((1+1))")["output"] == "2\n"
        path = agent.get("get_state")["sessionFile"]
        agent.close()
        assert agent.exit_code() == 0
    assert Path(path).exists()
    assert [pid for pid in os.listdir("/proc") if pid.isdecimal() and _sleeps_in(str(agent.cwd), pid)] == []


def _sleeps_in(folder: str, pid: str) -> bool:
    process = Path("/proc", pid)
    try:
        return os.readlink(process / "cwd") == folder and (process / "cmdline").read_bytes() == b"sleep\0100\0"
    except OSError:
        return False
