"""tau.sync among threads, signals, forks and other event loops: nothing hangs, and each mistake has a sentence."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tau
from support.library_agent import HANGS, calls, children_left, opened, says
from tau import events
from tau.sync import Agent, RpcClient

FAKE = [sys.executable, str(Path(__file__).parents[1] / "rpc_client" / "fake.py")]
OWN_THREAD = "agent's own thread"
CLOSED = r"The agent was closed\."
WITHIN = 60.0


def in_threads(count: int, work: Callable[[], object]) -> list[object]:
    """What `work` returned or raised in each of so many threads."""
    found: list[object] = []

    def run() -> None:
        try:
            found.append(work())
        except Exception as error:
            found.append(error)

    threads = [threading.Thread(target=run, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WITHIN)
    assert not any(thread.is_alive() for thread in threads)
    return found


# In the agent's own thread, waiting would never end.


@pytest.mark.parametrize(
    "use",
    [
        lambda agent: agent.state,
        lambda agent: agent.abort(),
        lambda agent: agent.prompt("more"),
        lambda agent: next(agent.stream("more")),
        lambda agent: agent.close(),
        lambda agent: agent.on_dialog(lambda dialog: None),
    ],
    ids=["state", "abort", "prompt", "stream", "close", "on_dialog"],
)
def test_an_event_handler_that_would_wait_for_its_own_thread_is_told(
    tmp_path: Path, use: Callable[[Agent], object]
) -> None:
    raised: list[Exception] = []

    def handler(event: object) -> None:
        try:
            use(agent)
        except Exception as error:
            raised.append(error)

    with Agent(opened(tmp_path, says("one"), says("two"))) as agent:
        unsubscribe = agent.subscribe(handler)
        assert agent.prompt("go").text == "one"
        unsubscribe()
        assert agent.prompt("on").text == "two"
    assert raised and all(isinstance(error, tau.CommandError) and OWN_THREAD in str(error) for error in raised)


def test_an_async_handler_a_hook_and_an_async_tool_are_told_too(tmp_path: Path) -> None:
    raised: list[str] = []

    def use() -> None:
        try:
            agent.state  # noqa: B018
        except tau.CommandError as error:
            raised.append(str(error))

    async def handler(event: object) -> None:
        use()

    async def tool() -> str:
        """Use the agent."""
        use()
        return "used"

    with Agent(opened(tmp_path, calls("tool"), says("done"), tools=[tool])) as agent:
        agent.subscribe(handler)
        agent.on("agent_end", lambda event: use())
        assert agent.prompt("go").text == "done"
    assert len(raised) >= 3 and all(OWN_THREAD in error for error in raised)


def test_plain_tools_and_permissions_may_use_the_agent(tmp_path: Path) -> None:
    def look() -> int:
        """Count the messages."""
        return agent.state.message_count

    def permission(tool: str, input: dict[str, Any]) -> bool:
        return agent.is_busy

    with Agent(opened(tmp_path, calls("look"), says("done"), tools=[look], permission=permission)) as agent:
        result = agent.prompt("go")
        assert (result.text, result.messages[2].content[0].text) == ("done", "2")  # type: ignore[union-attr]


def test_a_host_tool_of_the_client_that_would_wait_for_its_own_thread_is_told() -> None:
    with RpcClient(executable=FAKE) as client:

        async def use() -> str:
            client.get_state()
            return "never"

        with pytest.raises(tau.CommandError, match=OWN_THREAD):
            client._wait(use())
        assert client.get_state().session_id == "s"


# Threads.


def test_threads_share_an_agent_that_one_of_them_opened(tmp_path: Path) -> None:
    made: list[Agent] = []
    threading.Thread(target=lambda: made.append(Agent(opened(tmp_path, says("ok"))))).run()
    (agent,) = made
    with agent:
        assert in_threads(8, lambda: agent.state.message_count) == [0] * 8


def test_prompts_of_several_threads_are_run_or_refused(tmp_path: Path) -> None:
    with Agent(opened(tmp_path)) as agent:
        found = in_threads(6, lambda: agent.prompt("hi"))
        texts = [one.text for one in found if isinstance(one, tau.Result)]
        refused = [one for one in found if isinstance(one, tau.CommandError)]
        assert len(texts) + len(refused) == 6 and set(texts) == {"ok"}


def test_closing_in_several_threads_closes_once(tmp_path: Path) -> None:
    agent = Agent(opened(tmp_path))
    assert in_threads(8, agent.close) == [None] * 8
    agent.close()
    with pytest.raises(tau.CommandError, match=CLOSED):
        agent.state  # noqa: B018


def test_what_waits_while_another_thread_closes_ends(tmp_path: Path) -> None:
    agent = Agent(opened(tmp_path, HANGS))
    begun = threading.Event()
    agent.subscribe(lambda event: begun.set())
    found: list[object] = []
    waiting = threading.Thread(target=lambda: found.extend(in_threads(1, lambda: agent.prompt("go"))))
    waiting.start()
    assert begun.wait(WITHIN)
    agent.close()
    waiting.join(WITHIN)
    (outcome,) = found
    assert isinstance(outcome, tau.CommandError) or (isinstance(outcome, tau.Result) and not outcome.ok)


def test_reading_while_another_thread_closes_gives_a_value_or_an_error(tmp_path: Path) -> None:
    for _ in range(5):
        agent = Agent(opened(tmp_path))
        enough = threading.Barrier(5)

        def read(agent: Agent = agent, enough: threading.Barrier = enough) -> object:
            enough.wait(WITHIN)
            while True:
                assert agent.state.message_count == 0

        closing = threading.Thread(target=lambda agent=agent, enough=enough: (enough.wait(WITHIN), agent.close()))
        closing.start()
        found = in_threads(4, read)
        closing.join(WITHIN)
        assert all(isinstance(one, tau.CommandError) and str(one) == "The agent was closed." for one in found), found


def test_a_stream_that_is_left_early_leaves_the_run_alone(tmp_path: Path) -> None:
    with Agent(opened(tmp_path, says("a", "b", "c"), says("next"))) as agent:
        for event in agent.stream("go"):
            if isinstance(event, events.MessageUpdate):
                break
        agent.wait_idle()
        assert agent.last_text() == "abc"
        assert agent.prompt("on").text == "next"


# Other loops.


def test_it_is_opened_and_used_in_a_coroutine(tmp_path: Path) -> None:
    async def cell() -> str:
        with Agent(opened(tmp_path, says("in a cell"))) as agent:
            return agent.prompt("go").text

    assert asyncio.run(cell()) == "in a cell"


def test_an_async_tool_of_one_agent_uses_another(tmp_path: Path) -> None:
    async def ask() -> str:
        """Ask the other agent."""
        with Agent(opened(tmp_path / "inner", says("inner"))) as inner:
            return inner.prompt("go").text

    with Agent(opened(tmp_path, calls("ask"), says("outer"), tools=[ask])) as agent:
        result = agent.prompt("go")
        assert (result.text, result.messages[2].content[0].text) == ("outer", "inner")  # type: ignore[union-attr]


# Signals. They reach the main thread, so each of these is a program of its own.

PROGRAM = """
import os, signal, sys, threading, time
from pathlib import Path
import tau, tau.sync

folder = Path(sys.argv[1])
SLEEPS = {"blocks": [{"tool": "bash", "arguments": {"command": "echo > started; sleep 60"}}]}

def open_agent(*script, **more):
    (folder / "work").mkdir(exist_ok=True)
    return tau.sync.open(folder / "work", agent_dir=folder / "agent", session=False,
                         script=[*script, {"text": "after"}], **more)

def when_started(act):
    def wait():
        while not (folder / "work" / "started").exists():
            time.sleep(0.01)
        act()
    threading.Thread(target=wait, daemon=True).start()

"""


# Python 3.12 and later warn of forks in a process with threads, which is what these programs do.
FORKS = ("-W", "ignore:This process:DeprecationWarning")


def run_program(folder: Path, body: str, *options: str) -> tuple[int, str, str]:
    source = PROGRAM + textwrap.dedent(body)
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, *FORKS, *options, "-c", source, str(folder)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=WITHIN,
    )
    return done.returncode, done.stdout, done.stderr


def processes_in(folder: Path) -> list[str]:
    """Commands of processes whose working folder is below `folder`."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdecimal() and str((process / "cwd").readlink()).startswith(str(folder)):
                found.append((process / "cmdline").read_text())
        except OSError:
            continue
    return found


@pytest.mark.process
def test_signals_abort_the_run_that_they_interrupt_and_the_agent_goes_on(tmp_path: Path) -> None:
    """Ctrl-C, an alarm whose handler raises, and a handler that calls the agent."""
    found = run_program(
        tmp_path,
        """
        def late(number, frame):
            raise TimeoutError("too late")

        signal.signal(signal.SIGALRM, late)
        with open_agent(SLEEPS, SLEEPS, SLEEPS) as agent:
            signal.signal(signal.SIGUSR1, lambda number, frame: agent.abort())
            for number in (signal.SIGINT, signal.SIGALRM, signal.SIGUSR1):
                (folder / "work" / "started").unlink(missing_ok=True)
                when_started(lambda: os.kill(os.getpid(), number))
                try:
                    print(agent.prompt("go").stop_reason)
                except (KeyboardInterrupt, TimeoutError) as error:
                    print(repr(error))
                agent.wait_idle()
            print(agent.prompt("again").text)
        """,
    )
    assert found == (0, "KeyboardInterrupt()\nTimeoutError('too late')\naborted\nafter\n", "")
    assert processes_in(tmp_path) == []


@pytest.mark.process
def test_a_program_that_ends_without_closing_leaves_nothing(tmp_path: Path) -> None:
    found = run_program(
        tmp_path,
        """
        agent = open_agent(SLEEPS)
        threading.Thread(target=lambda: agent.prompt("go"), daemon=True).start()
        while not (folder / "work" / "started").exists():
            time.sleep(0.01)
        print("end")
        """,
    )
    assert found == (0, "end\n", "")
    for _ in range(600):
        if not processes_in(tmp_path):
            break
        threading.Event().wait(0.05)
    assert processes_in(tmp_path) == []


@pytest.mark.process
def test_nothing_is_warned_of(tmp_path: Path) -> None:
    found = run_program(
        tmp_path,
        """
        with open_agent() as agent:
            for event in agent.stream("go"):
                break
            agent.wait_idle()
            agent.bash("true")
        try:
            agent.state
        except tau.CommandError as error:
            print(error)
        """,
        "-W",
        "default",
    )
    assert found == (0, "The agent was closed.\n", "")


@pytest.mark.process
def test_a_loop_that_ends_by_itself_fails_what_waits_for_it(tmp_path: Path) -> None:
    """As asyncio does, SystemExit in an async function ends the loop: here that of the agent, in its thread."""
    found = run_program(
        tmp_path,
        """
        async def leave() -> str:
            "Leave."
            raise SystemExit(3)

        agent = open_agent({"blocks": [{"tool": "leave", "arguments": {}}]}, tools=[leave])
        try:
            assert not agent.prompt("go").ok
        except tau.CommandError:
            pass
        agent.close()
        try:
            agent.state
        except tau.CommandError as error:
            print(error)
        """,
    )
    assert (found[0], found[1]) == (0, "The agent was closed.\n")


@pytest.mark.process
def test_without_a_descriptor_for_its_loop_it_fails_and_does_not_hang(tmp_path: Path) -> None:
    found = run_program(
        tmp_path,
        """
        import resource
        taken = []
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        try:
            while True:
                taken.append(os.open("/", os.O_RDONLY))
        except OSError:
            pass
        try:
            open_agent()
        except OSError as error:
            print(error.strerror)
        """,
    )
    assert (found[0], found[1]) == (0, "Too many open files\n")


# Forks.


@pytest.mark.process
def test_a_forked_process_is_told_and_leaves_the_agent_alone(tmp_path: Path) -> None:
    found = run_program(
        tmp_path,
        """
        with open_agent() as agent:
            agent.bash("true")
            child = os.fork()
            if child == 0:
                try:
                    agent.state
                except tau.CommandError as error:
                    print(str(error).replace(str(os.getppid()), "N"), flush=True)
                sys.exit(7)  # leaves the `with`, and runs what is registered for the end
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            print(agent.bash("echo alive").output, agent.prompt("go").text)
        """,
    )
    assert found == (0, "The agent belongs to process N, from which this one was forked.\n7\nalive\n after\n", "")


@pytest.mark.process
def test_a_command_of_a_forked_process_does_not_end_with_its_parent(tmp_path: Path) -> None:
    found = run_program(
        tmp_path,
        """
        agent = open_agent()
        agent.bash("true")
        parent = os.getpid()
        if os.fork() == 0:
            ended = f"[ ! -d /proc/{parent} ] || grep -q '^State:.Z' /proc/{parent}/status"
            with open_agent() as own:
                done = own.bash(f"echo > started; until {ended}; do sleep 0.02; done; sleep 0.2; echo own")
                print(done.output, end="", flush=True)
            os._exit(0)
        while not (folder / "work" / "started").exists():
            time.sleep(0.01)
        os._exit(5)
        """,
    )
    assert found == (5, "own\n", "")


@pytest.mark.process
def test_a_forked_process_that_lives_on_does_not_keep_the_supervisor(tmp_path: Path) -> None:
    found = run_program(
        tmp_path,
        """
        def children():
            return {pid for file in Path("/proc/self/task").glob("*/children") for pid in file.read_text().split()}

        agent = open_agent()
        agent.bash("true")
        supervisor = children()
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        agent.close()
        deadline = time.monotonic() + 30
        while supervisor & children() and time.monotonic() < deadline:
            time.sleep(0.01)
        print(len(supervisor), len(supervisor & children()))
        os.kill(child, signal.SIGKILL)
        """,
    )
    assert found == (0, "1 0\n", "")


@pytest.mark.process
def test_a_client_in_a_forked_process_leaves_the_agent_alone(tmp_path: Path) -> None:
    found = run_program(
        tmp_path,
        f"""
        with tau.sync.RpcClient(executable={FAKE!r}) as client:
            child = os.fork()
            if child == 0:
                try:
                    client.get_state()
                except tau.AgentGone as error:
                    print("forked" in str(error), flush=True)
                sys.exit(7)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), client.get_state().session_id)
        """,
    )
    assert found == (0, "True\n7 s\n", "")


# The client.


def test_stopping_a_client_in_several_threads_stops_it() -> None:
    client = RpcClient(executable=FAKE)
    client.start()
    assert in_threads(6, client.stop) == [None] * 6
    assert client.exit_code is not None and children_left() == []


def test_calls_of_a_client_end_when_another_thread_stops_it() -> None:
    client = RpcClient(executable=FAKE)
    client.start()
    sent = threading.Event()
    found: list[object] = []

    def call() -> None:
        sent.set()
        found.extend(in_threads(1, lambda: client.bash("never answered")))

    waiting = threading.Thread(target=call)
    waiting.start()
    assert sent.wait(WITHIN)
    client.stop()
    waiting.join(WITHIN)
    assert len(found) == 1 and isinstance(found[0], tau.AgentGone)


def test_a_handler_may_stop_the_client() -> None:
    client = RpcClient(executable=FAKE)
    client.start()
    stopped = threading.Event()

    def stop(event: object) -> None:
        client.stop()
        stopped.set()

    client.on_event(stop)
    client.prompt('[["say", {"type": "agent_start"}]]')
    assert stopped.wait(WITHIN)
    with pytest.raises(tau.AgentGone):
        client.get_state()
