"""How it ends: by EOF after its work, by a signal or a lost client at once, and never with a process left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.rpc_process import (
    WITHIN,
    Agent,
    Pipe,
    calls,
    endless,
    is_gone,
    kinds,
    of,
    piece,
    quick,
    scripted,
    surroundings,
    text,
    texts,
)

STUBBORN = "trap '' TERM INT HUP; echo $$; while :; do sleep 0.1; done"
CODES = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGHUP: 129}
TRANSIENT = {"error": {"message": "529 overloaded"}}


@contextmanager
def in_a_tool(folder: Path, *, listening: bool = True) -> Iterator[tuple[Agent, int]]:
    """An agent whose tool runs and does not want to end, and that tool's pid."""
    folder.mkdir(exist_ok=True)
    pipe = Pipe(folder / "pid")
    with pipe, Agent(folder, calls(STUBBORN.replace("$$", f"$$ >{pipe.path}")), listening=listening) as agent:
        agent.write(b'{"type":"prompt","message":"go"}\n')
        yield agent, int(pipe.line())


def seconds(work: Callable[[], object]) -> float:
    before = time.monotonic()
    work()
    return time.monotonic() - before


# EOF.


def test_eof_when_idle(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        agent.get("get_state")
        agent.close()
        assert agent.exit_code() == 0


def test_eof_before_anything_was_said(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        agent.close()
        assert (agent.exit_code(), agent.records) == (0, [])


def test_eof_lets_the_run_come_to_its_end(tmp_path: Path) -> None:
    with Pipe(tmp_path / "gate") as gate, Agent(tmp_path, calls(f"read x <{gate.path}"), {"text": "done"}) as agent:
        agent.ask("prompt", message="go")
        agent.until("tool_execution_start")
        agent.close()
        gate.say()
        assert kinds(agent.settled())[-2:] == ["agent_end", "agent_settled"]
        assert agent.exit_code() == 0
        assert texts(agent.events, "assistant")[-1] == "done"


def test_eof_right_behind_a_prompt(tmp_path: Path) -> None:
    with Agent(tmp_path, {"text": "done", "startDelayMs": 100}) as agent:
        agent.write(b'{"id":"p","type":"prompt","message":"go"}\n')
        agent.close()
        assert agent.exit_code() == 0
        assert agent.response("p")["success"]
        assert texts(agent.events, "assistant") == ["done"]
        assert kinds(agent.events)[-1] == "agent_settled"


def test_eof_lets_what_is_queued_be_told(tmp_path: Path) -> None:
    with Pipe(tmp_path / "gate") as gate, Agent(tmp_path, calls(f"read x <{gate.path}"), {"text": "ok"}) as agent:
        agent.ask("prompt", message="go")
        agent.until("tool_execution_start")
        agent.get("follow_up", message="one")
        agent.get("prompt", message="two", streamingBehavior="followUp")
        agent.get("steer", message="three")
        agent.close()
        gate.say()
        assert agent.exit_code() == 0
        assert texts(agent.events, "user") == ["go", "three", "one", "two"]
        assert len(of("agent_settled", agent.events)) == 1


def test_eof_waits_for_a_retry(tmp_path: Path) -> None:
    with Agent(tmp_path, TRANSIENT, {"text": "ok"}, settings={"retry": {"baseDelayMs": 300}}) as agent:
        agent.ask("prompt", message="go")
        agent.until("auto_retry_start")
        agent.close()
        assert agent.exit_code() == 0
        assert texts(agent.events, "assistant")[-1] == "ok"


def test_eof_waits_for_a_shell_command(tmp_path: Path) -> None:
    with Pipe(tmp_path / "gate") as gate, Agent(tmp_path) as agent:
        bash = agent.send("bash", command=f"read line <{gate.path}; echo $line")
        agent.close()
        gate.say("late")
        assert agent.exit_code() == 0
        assert agent.response(bash)["data"]["output"] == "late\n"


def test_abort_then_eof(tmp_path: Path) -> None:
    with Agent(tmp_path, endless("so far")) as agent:
        agent.ask("prompt", message="go")
        agent.until(piece)
        abort = agent.send("abort")
        agent.close()
        assert agent.exit_code() == 0
        assert agent.response(abort)["success"]
        assert kinds(agent.events)[-2:] == ["agent_end", "agent_settled"]


def test_eof_leaves_no_background_process(tmp_path: Path) -> None:
    with Agent(tmp_path, calls("sleep 1000 >/dev/null 2>&1 & echo $!"), {"text": "ok"}) as agent:
        agent.ask("prompt", message="go")
        agent.close()
        assert agent.exit_code() == 0
        assert is_gone(int(texts(agent.events, "toolResult")[0]), within=WITHIN)


def test_a_client_that_is_slow_to_read_gets_everything_after_eof(tmp_path: Path) -> None:
    with Agent(tmp_path, listening=False) as agent:
        agent.write(b'{"type":"get_state"}\n' * 5_000)
        agent.close()
        agent.listen()
        assert agent.exit_code() == 0
        assert len(agent.responses) == 5_000


# Input that is no pipe.


def test_stdin_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b'{"id":"1","type":"get_state"}\n{"id":"2","type":"prompt","message":"go"}')
    with (tmp_path / "in").open("rb") as file, Agent(tmp_path, {"text": "done"}, stdin=file.fileno()) as agent:
        assert agent.exit_code() == 0
        assert agent.response("1")["success"] and agent.response("2")["success"]
        assert texts(agent.events, "assistant") == ["done"]


def test_stdin_from_a_file_that_is_longer_than_what_may_wait(tmp_path: Path) -> None:
    line = b'{"type":"get_state","x":"%b"}\n' % (b"x" * 100_000)
    with (tmp_path / "in").open("wb") as file:
        file.writelines(line for _ in range(400))
    with (tmp_path / "in").open("rb") as file, Agent(tmp_path, stdin=file.fileno()) as agent:
        assert agent.exit_code() == 0
        assert len(agent.responses) == 400


def test_pipes_that_are_non_blocking(tmp_path: Path) -> None:
    theirs, ours = os.pipe()
    heard, said = os.pipe()
    for end in (theirs, said):
        os.set_blocking(end, False)
    command = scripted(tmp_path, {"text": "done"})
    with subprocess.Popen(command, stdin=theirs, stdout=said, cwd=tmp_path, env=surroundings(tmp_path)) as process:
        os.close(theirs)
        os.close(said)
        for _ in range(3):
            time.sleep(0.1)  # whoever reads too early finds nothing
            os.write(ours, b'{"type":"get_state"}\n' * 500)  # the answers are more than a pipe holds
        os.write(ours, b'{"type":"prompt","message":"go"}\n')
        os.close(ours)
        time.sleep(0.3)
        with open(heard, "rb") as stream:
            records = [json.loads(line) for line in stream]
    assert process.returncode == 0
    assert (len(of("response", records)), len(of("agent_end", records))) == (1501, 1)


def test_stdin_from_dev_null(tmp_path: Path) -> None:
    with Agent(tmp_path, stdin=subprocess.DEVNULL) as agent:
        assert (agent.exit_code(), agent.records) == (0, [])


def test_stdin_from_a_terminal(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    with Agent(tmp_path, stdin=theirs) as agent:
        os.close(theirs)
        os.write(ours, b'{"id":"typed","type":"get_state"}\n')
        assert agent.response("typed")["success"]
        os.write(ours, b"\x04")  # Ctrl-D
        assert agent.exit_code() == 0
    os.close(ours)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_started_with_a_stream_closed(tmp_path: Path, closed: str) -> None:
    env = surroundings(tmp_path)
    done = subprocess.run(
        ["bash", "-c", f'exec "$@" {closed}', "bash", *scripted(tmp_path)],
        input=b'{"type":"get_state"}\n',
        capture_output=True,
        cwd=tmp_path,
        env=env,
        timeout=30,
    )
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
    assert done.stdout.count(b"\n") == (closed == "2>&-")


# Signals.


@pytest.mark.parametrize("number", CODES)
def test_a_signal_when_idle(tmp_path: Path, number: signal.Signals) -> None:
    with Agent(tmp_path) as agent:
        agent.get("get_state")
        agent.signal(number)
        assert agent.exit_code(within=10) == CODES[number]


@pytest.mark.promise("B10", "B11", "B19")
@pytest.mark.parametrize("number", CODES)
def test_a_signal_during_a_tool_takes_the_tool_along(tmp_path: Path, number: signal.Signals) -> None:
    def measure() -> float:
        with in_a_tool(tmp_path / f"{time.monotonic_ns()}") as (agent, pid):
            agent.signal(number)
            taken = seconds(lambda: agent.exit_code())
            assert agent.exit_code() == CODES[number]
            assert is_gone(pid, within=WITHIN)
            assert kinds(agent.events)[-2:] == ["agent_end", "agent_settled"]
        return taken

    quick(measure, 2)


@pytest.mark.parametrize("number", CODES)
def test_a_signal_while_streaming_tells_the_run_to_its_end(tmp_path: Path, number: signal.Signals) -> None:
    with Agent(tmp_path, endless("partial")) as agent:
        agent.ask("prompt", message="go")
        agent.until(piece)
        agent.signal(number)
        assert agent.exit_code(within=10) == CODES[number]
        answer = of("agent_end", agent.events)[0]["messages"][-1]
        assert (text(answer), answer["stopReason"]) == ("partial", "aborted")
        assert kinds(agent.events)[-1] == "agent_settled"


@pytest.mark.promise("B19")
def test_the_first_of_two_signals_decides(tmp_path: Path) -> None:
    with in_a_tool(tmp_path) as (agent, pid):
        agent.signal(signal.SIGTERM)
        agent.signal(signal.SIGTERM)
        assert agent.exit_code(within=10) == 143
        assert is_gone(pid, within=WITHIN)


def test_a_signal_during_a_shell_command_of_the_client(tmp_path: Path) -> None:
    with Pipe(tmp_path / "pid") as pipe, Agent(tmp_path) as agent:
        agent.send("bash", command=f"trap '' TERM; echo $$ >{pipe.path}; sleep 1000; sleep 1000")
        pid = int(pipe.line())
        agent.signal(signal.SIGTERM)
        assert agent.exit_code(within=10) == 143
        assert is_gone(pid, within=WITHIN)


def test_a_signal_after_eof_does_not_wait_for_the_run(tmp_path: Path) -> None:
    with in_a_tool(tmp_path) as (agent, pid):
        agent.close()
        agent.signal(signal.SIGTERM)
        assert agent.exit_code(within=10) == 143
        assert is_gone(pid, within=WITHIN)


def test_a_signal_ends_it_even_if_the_client_does_not_read(tmp_path: Path) -> None:
    with Agent(tmp_path, {"text": "word " * 100, "repeat": 100_000_000}, listening=False) as agent:
        agent.write(b'{"type":"prompt","message":"go"}\n' + b'{"type":"get_state"}\n' * 10_000)
        agent.signal(signal.SIGTERM)
        assert agent.exit_code(within=10) == 143


# A client that is gone.


@pytest.mark.promise("B09")
def test_a_client_that_closes_both_pipes_during_a_tool(tmp_path: Path) -> None:
    def measure() -> float:
        with in_a_tool(tmp_path / f"{time.monotonic_ns()}", listening=False) as (agent, pid):
            agent.close()
            agent.deafen()
            taken = seconds(lambda: agent.exit_code())
            assert agent.exit_code() == 0
            assert is_gone(pid, within=WITHIN)
        return taken

    quick(measure, 2)


DYING = """
import os, subprocess, sys
agent = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
agent.stdin.write(b'{"type":"prompt","message":"go"}\\n')
agent.stdin.flush()
print(agent.pid, flush=True)
agent.stdout.read()
"""


def test_a_client_that_is_killed_during_a_tool(tmp_path: Path) -> None:
    env = surroundings(tmp_path)
    with Pipe(tmp_path / "pid") as pipe:
        argv = scripted(tmp_path, calls(STUBBORN.replace("$$", f"$$ >{pipe.path}")))
        client = subprocess.Popen([sys.executable, "-c", DYING, *argv], stdout=subprocess.PIPE, cwd=tmp_path, env=env)
        assert client.stdout is not None
        agent, tool = int(client.stdout.readline()), int(pipe.line())
        client.kill()
        client.wait()
        client.stdout.close()
        assert is_gone(agent, within=WITHIN)
        assert is_gone(tool, within=WITHIN)
