"""What days bring: many sessions, extensions that come and go, a computer that sleeps, a clock that jumps, no memory.

tests/long/soak.py lives longer.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import textwrap
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from faults.processes import children
from support.rpc_process import WITHIN, Agent, Pipe, calls, endless, is_gone, of, piece, quick, said, text, texts

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

SECOND = 1.0
# Threads that asyncio keeps for blocking work: one more now and then, if the last has not yet said that it is done.
POOL = min(32, (os.cpu_count() or 1) + 4)


class Taken(NamedTuple):
    """What a process has: KiB of memory, descriptors, threads, children."""

    memory: int
    handles: int
    threads: int
    children: int


def taken(agent: Agent) -> Taken:
    proc = Path(f"/proc/{agent.pid}")
    memory = next(line for line in (proc / "status").read_text().splitlines() if line.startswith("VmRSS"))
    threads = len(os.listdir(proc / "task"))
    return Taken(int(memory.split()[1]), len(os.listdir(proc / "fd")), threads, len(children(agent.pid)))


def grows(agent: Agent, work: Callable[[], None], rounds: int) -> None:
    """After as many rounds again as it takes to warm up, everything is as it was; memory, but for a little."""
    for _ in range(rounds):
        work()
    before = taken(agent)
    for _ in range(rounds):
        work()
    agent.forget()
    after, until = taken(agent), time.monotonic() + WITHIN
    # A file may just be synced, and who was ended last may not be gone yet.
    while (after.handles > before.handles or after.children > before.children) and time.monotonic() < until:
        agent.get("get_state")
        after = taken(agent)
    assert after.handles <= before.handles and after.children <= before.children, (before, after)
    assert after.threads <= before.threads + POOL
    assert after.memory - before.memory <= 2048


# Sessions and extensions.


@pytest.mark.promise("Z02")
def test_a_thousand_switches_between_sessions_leave_nothing_behind(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        files = []
        for _ in range(2):
            agent.prompt("one of two")
            files.append(agent.get("get_state")["sessionFile"])
            agent.get("new_session")

        def both() -> None:
            for file in files:
                agent.get("switch_session", sessionPath=file)
            agent.forget()

        grows(agent, both, 250)
        assert len(agent.get("get_messages")["messages"]) == 2


EXTENSION = """
import os

def setup(pi):
    @pi.on("session_start")
    def begin(event, ctx):
        ctx.ui.notify(event["reason"] + " " + str(os.getpid()))

    @pi.command("again")
    async def again(args, ctx):
        await ctx.reload()

    @pi.command("leave")
    async def leave(args, ctx):
        os._exit(7)
"""


@pytest.mark.promise("Z02")
def test_repeated_reloads_and_crashes_of_extensions_leave_nothing_behind(tmp_path: Path) -> None:
    file = tmp_path / "ext.py"
    file.write_text(EXTENSION)
    pids: list[int] = []
    settings = {"extensionHost": {"loadTimeoutMs": 60_000}}
    with Agent(tmp_path, args=["-e", str(file)], settings=settings) as agent:

        def started() -> None:
            pids.append(int(agent.until("extension_ui_request")[-1]["message"].split()[1]))

        def leave_and_load() -> None:
            agent.ask("prompt", message="/leave")
            started()  # by itself, since it ended
            agent.ask("prompt", message="/again")
            started()
            agent.forget()

        started()
        grows(agent, leave_and_load, 8)
        assert len(set(pids)) == len(pids)
        assert all(is_gone(pid, within=WITHIN) for pid in pids[:-1])


# Sleep, and clocks.


@pytest.mark.promise("Z03")
def test_after_a_sleep_everything_that_was_said_meanwhile_is_answered_at_once(tmp_path: Path) -> None:
    with Agent(tmp_path, endless("so far"), {"text": "ok"}, settings={"httpIdleTimeoutMs": 500}) as agent:

        def measure() -> float:
            agent.ask("prompt", message="go")
            agent.until(piece)
            asleep(agent)
            said_meanwhile = [agent.send(kind) for kind in ("get_state", "get_messages", "abort", "get_state")]
            time.sleep(SECOND)  # this is what is tried
            began = time.monotonic()
            agent.signal(signal.SIGCONT)
            assert all(agent.response(id)["success"] for id in said_meanwhile)
            waited = time.monotonic() - began
            agent.settled()
            return waited

        quick(measure, SECOND)


def asleep(agent: Agent) -> None:
    agent.signal(signal.SIGSTOP)
    while Path(f"/proc/{agent.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        pass


# A clock that is off by what a file says, for a process that is started with this on its path.
CLOCK = """
    import pathlib, time

    FILE = pathlib.Path({file!r})
    real, real_ns = time.time, time.time_ns
    time.time = lambda: real() + float(FILE.read_text())
    time.time_ns = lambda: real_ns() + int(float(FILE.read_text()) * 10**9)
"""
DAY = 24 * 3600


@pytest.mark.promise("Z03", "D18")
def test_a_clock_that_jumps_by_a_day_changes_neither_the_order_nor_how_fast_it_answers(tmp_path: Path) -> None:
    file, site = tmp_path / "offset", tmp_path / "site"
    file.write_text("0")
    site.mkdir()
    (site / "sitecustomize.py").write_text(textwrap.dedent(CLOCK.format(file=str(file))))
    retried = {"error": {"message": "529 overloaded"}}
    answers = [{"text": "now"}, retried, {"text": "later"}, calls("sleep 0.1; echo earlier"), {"text": "again"}]
    settings = {"retry": {"baseDelayMs": 100}}
    with Agent(tmp_path, *answers, settings=settings, env={"PYTHONPATH": str(site)}) as agent:
        agent.prompt("first")
        for offset, words in ((DAY, "a day on"), (-DAY, "two days back")):
            later = tmp_path / "later"
            later.write_text(str(offset))
            later.replace(file)  # whoever asks for the time meanwhile finds the one or the other
            quick(lambda: seconds(lambda: agent.get("get_state")), SECOND)
            quick_enough = seconds(lambda words=words: agent.prompt(words))  # type: ignore[misc]
            assert quick_enough < 10 * SECOND
        told = [text(message) for message in agent.get("get_messages")["messages"] if message["content"]]
        stamps = [message["timestamp"] for message in said(agent.events, "user")]
        session = agent.get("get_state")["sessionFile"]
    assert stamps[0] < stamps[1] - (DAY - 60) * 1000 and stamps[2] < stamps[0]  # so the clock did jump
    with Agent(tmp_path, args=["--session", session]) as agent:
        again = [text(message) for message in agent.get("get_messages")["messages"] if message["content"]]
    assert again == told == ["first", "now", "a day on", "later", "two days back", "", "earlier\n", "again"]


def seconds(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


# No memory left: the kernel ends somebody.


@pytest.mark.promise("Z04")
def test_a_command_that_the_kernel_ends_is_reported_as_such_and_the_next_one_works(tmp_path: Path) -> None:
    with Pipe(tmp_path / "pid") as pids:
        command = f"echo begun; echo $$ >{pids.path}; sleep 1000"
        with Agent(tmp_path, calls(command), calls("echo fine"), {"text": "ok"}) as agent:
            agent.ask("prompt", message="go")
            os.kill(int(pids.line()), signal.SIGKILL)
            events = agent.settled()
            ended, fine = of("tool_execution_end", events)
            assert (ended["isError"], fine["isError"]) == (True, False)
            assert text(ended["result"]) == "begun\n\n\nCommand was killed by signal SIGKILL"
            assert (text(fine["result"]), texts(events, "assistant")[-1]) == ("fine\n", "ok")


@pytest.mark.promise("Z04")
def test_when_the_kernel_ends_what_runs_commands_that_is_reported_and_the_next_one_works(tmp_path: Path) -> None:
    with Pipe(tmp_path / "pid") as pids:
        command = f"echo begun; echo $$ >{pids.path}; sleep 1000"
        with Agent(tmp_path, calls(command), calls("echo fine"), {"text": "ok"}) as agent:
            agent.ask("prompt", message="go")
            shell = int(pids.line())
            for pid in above(shell, agent.pid):
                with suppress(ProcessLookupError):  # it may have ended with the one below it
                    os.kill(pid, signal.SIGKILL)
            events = agent.settled()
            ended, fine = of("tool_execution_end", events)
            assert (ended["isError"], fine["isError"]) == (True, False)
            assert (text(fine["result"]), texts(events, "assistant")[-1]) == ("fine\n", "ok")
            assert is_gone(shell, within=WITHIN)


def above(pid: int, end: int) -> list[int]:
    """The processes between one and another that is above it."""
    found: list[int] = []
    while (pid := int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])) != end:
        assert pid > 1, "it is not below the agent"
        found.append(pid)
    return found


@pytest.mark.promise("Z04")
def test_when_the_kernel_ends_the_agent_its_session_is_whole(tmp_path: Path) -> None:
    with Pipe(tmp_path / "pid") as pids:
        answers = [{"text": "first"}, calls(f"echo $$ >{pids.path}; sleep 1000"), {"text": "ok"}]
        with Agent(tmp_path, *answers) as agent:
            agent.prompt("one")
            agent.ask("prompt", message="two")
            tool = int(pids.line())
            session = Path(agent.get("get_state")["sessionFile"])
            agent.signal(signal.SIGKILL)
            assert agent.exit_code() == -signal.SIGKILL
            assert is_gone(tool, within=WITHIN)
    kept = [json.loads(line) for line in session.read_text().splitlines()]
    roles = [entry["message"]["role"] for entry in kept if entry["type"] == "message"]
    assert roles == ["user", "assistant", "user", "assistant"]
    with Agent(tmp_path, args=["--session", str(session)]) as agent:
        assert texts(agent.prompt("three"), "assistant") == ["ok"]
