"""The tool runner: whatever a command starts, it can be ended. Linux only, as the runner is."""

from __future__ import annotations

import asyncio
import gc
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from support.rpc_process import is_gone
from support.virtual_clock import Clock, played
from tau.errors import ToolError
from tau.runtime.machine.child_environment import filtered_environment
from tau.runtime.machine.jobs import LOST, ProcessLauncher
from tau.runtime.machine.local import LocalMachine
from tau.store.keys import Keys
from tau.tools import Exit, Stream

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no runner here")

# Each has said who hides when its last command has ended: a word that comes later may come too late to be heard.
DAEMON = "import os, time; r, w = os.pipe(); os.fork() and (os.close(w), os.read(r, 1), os._exit(0))"
LEAVE = "os.setsid(); os.fork() and os._exit(0)"
SLEEP = "os.write(1, b'%d\\n' % os.getpid()); os.close(w); time.sleep(60)"
HIDE = shlex.join([sys.executable, "-c", f"{DAEMON}; {LEAVE}; {SLEEP}"])
PLAIN_PATH = {"PATH": os.defpath}  # without folders that this user may not read
WITHIN = 30.0  # seconds; only a failure takes them all
HIDING = {
    "plain": "sleep 60 & echo $!",
    "setsid": "setsid sleep 60 & echo $!",
    "double fork": HIDE,
    "nohup": "nohup sleep 60 >/dev/null 2>&1 & echo $!",
    "subshells": "( ( sleep 60 & echo $! ) & wait )",
}


class Ears:
    def __init__(self) -> None:
        self.text = b""
        self.news = asyncio.Event()

    def __call__(self, stream: Stream, data: bytes) -> None:
        self.text += data
        self.news.set()

    async def line(self, count: int = 1) -> list[int]:
        """The numbers in the first lines."""
        while self.text.count(b"\n") < count:
            self.news.clear()
            await self.news.wait()
        return [int(word) for word in self.text.split()]


def play(main: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(main, 2 * WITHIN))


async def run(machine: LocalMachine, command: str | list[str], **options: Any) -> tuple[Exit, str]:
    ears = Ears()
    exit = await machine.run(command, cwd="/", on_output=ears, **options)
    return exit, ears.text.decode()


def state(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def is_alive(pid: int) -> bool:
    return not is_gone(pid, within=0)


async def gone(pid: int) -> bool:
    return await comes(lambda: not is_alive(pid))


async def comes(ready: Callable[[], bool]) -> bool:
    """Whether something comes true, however slow the machine is."""
    until = time.monotonic() + WITHIN
    while not (found := ready()) and time.monotonic() < until:
        await asyncio.sleep(0.001)
    return found


def children(of: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{of}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            found += map(int, (task / "children").read_text().split())
    return found


def newest_runner() -> int:
    """Among our children, which the kernel lists in the order they were born."""
    [*_, newest] = [pid for pid in children(os.getpid()) if name(pid) == "tau-supervisor\n"]
    return newest


def name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except (FileNotFoundError, ProcessLookupError):  # a runner of another test, which is just being buried
        return ""


# Words


def test_words_are_run_as_they_are() -> None:
    assert play(run(LocalMachine(prefix="exit 9"), ["printf", "%s|", "a b", "$HOME", "*"])) == (Exit(0), "a b|$HOME|*|")


def test_a_program_is_looked_for_on_the_path_of_its_environment(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("#!/bin/sh\necho found\n")
    (tmp_path / "mine").chmod(0o755)
    assert play(run(LocalMachine(env={"PATH": str(tmp_path)}), ["mine"])) == (Exit(0), "found\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["no-such-program"], "Cannot start 'no-such-program': No such file or directory"),
        (["/etc/passwd"], "Cannot start '/etc/passwd': Permission denied"),
        (["echo", "a\0b"], "A command cannot contain a NUL character; write it as \\0 or use a file"),
        (["echo", "x" * 3_000_000], "The command is too long for the system; write it to a file and run that"),
    ],
)
def test_a_program_that_cannot_be_started_is_named(words: list[str], said: str) -> None:
    with pytest.raises(ToolError) as failed:
        play(run(LocalMachine(env=PLAIN_PATH), words))
    assert str(failed.value) == said


# What a command starts with


def test_a_command_starts_with_the_signals_of_a_login_shell() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN), signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    try:
        _, text = play(run(LocalMachine(), ["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]))
    finally:
        signal.signal(signal.SIGHUP, before[0])
        signal.pthread_sigmask(signal.SIG_SETMASK, before[1])
    # 32 and 33 belong to the C library: nobody else can change them, and they may come to us ignored.
    mine = ~(3 << 31)
    assert [int(line.split()[1], 16) & mine for line in text.splitlines()] == [0, 0]


def test_a_broken_pipe_ends_a_command_silently() -> None:
    assert play(run(LocalMachine(), "yes | head -1")) == (Exit(0), "y\n")


def test_a_crash_leaves_no_core_file() -> None:
    assert play(run(LocalMachine(), "ulimit -S -c")) == (Exit(0), "0\n")


def test_a_command_leads_a_session_without_a_terminal() -> None:
    _, text = play(run(LocalMachine(), "sed 's/.*) //' /proc/$$/stat; echo $$"))
    _state, _parent, _group, session, terminal, *_, itself = text.split()
    assert (session, terminal) == (itself, "0")


def test_an_environment_of_any_size_is_passed_on() -> None:
    env = {"PATH": os.environ["PATH"], **{f"V{n}": "x" * 100_000 for n in range(10)}, "ODD": "\udcff=\n"}
    machine = LocalMachine(env=env)
    assert play(run(machine, r"""printf '%s' "${#V9} $ODD" | od -An -c""")) == (
        Exit(0),
        "   1   0   0   0   0   0     377   =  \\n\n",
    )


@pytest.mark.promise("F07")
def test_secrets_can_be_kept_from_commands(tmp_path: Path) -> None:
    keys = Keys(tmp_path / "auth.json", {})
    keys.configured = {"acme": "$ACME", "other": "BETA", "third": "!pass show key"}
    named = [
        "OPENAI_API_KEY",
        "GH_TOKEN",
        "MY_SECRET_X",
        "DB_PASSWORD",
        "AWS_CREDENTIALS",
        "ACME",
        "BETA",
        "db_password",
    ]
    kept = {"PATH": "/bin", "KEYBOARD": "de", "TOKENIZERS_PARALLELISM": "false", "GIT_AUTHOR_NAME": "me"}
    assert filtered_environment({**dict.fromkeys(named, "hush"), **kept}, keys) == kept


# Nothing gets away


@pytest.mark.parametrize("hiding", HIDING)
def test_what_hides_is_dead_when_a_cancelled_call_returns(hiding: str) -> None:
    async def main(clock: Clock) -> list[bool]:
        machine, ears = LocalMachine(), Ears()
        running = asyncio.create_task(machine.run(f"{HIDING[hiding]}\necho $$; sleep 60", cwd="/", on_output=ears))
        processes = await ears.line(2)
        before = [is_alive(pid) for pid in processes]
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return before + [is_alive(pid) for pid in processes]

    assert played(main) == [True, True, False, False]


@pytest.mark.parametrize("hiding", HIDING)
def test_what_hides_is_dead_when_a_command_is_out_of_time(hiding: str) -> None:
    async def main(clock: Clock) -> tuple[Exit, bool]:
        ears = Ears()
        command = f"{HIDING[hiding]}\nsleep 60"
        running = asyncio.create_task(LocalMachine().run(command, cwd="/", on_output=ears, timeout=10))
        hidden = (await ears.line())[0]
        clock.let_pass(10)
        return await running, is_alive(hidden)

    assert played(main) == (Exit(None, "SIGKILL", timed_out=True), False)


@pytest.mark.parametrize("hiding", HIDING)
def test_what_is_left_behind_lives_on_until_it_is_ended(hiding: str) -> None:
    async def main() -> list[bool]:
        machine = LocalMachine()
        started = time.monotonic()
        _, text = await run(machine, HIDING[hiding])
        at_once = time.monotonic() - started < 20
        pid = int(text)
        await run(machine, "true")
        lived = is_alive(pid)
        machine.kill_background()
        return [at_once, lived, await gone(pid)]

    assert play(main()) == [True, True, True]


def test_what_was_left_behind_through_one_part_of_the_machine_is_no_matter_of_another() -> None:
    async def main() -> list[bool]:
        machine = LocalMachine()
        mine, yours = machine.sub_machine(), machine.sub_machine()
        one, two, three = [int((await run(some, "sleep 60 & echo $!"))[1]) for some in (machine, mine, yours)]
        mine.kill_background()
        after_mine = [await gone(two), is_alive(one), is_alive(three)]
        machine.kill_background()
        return [*after_mine, await gone(one), await gone(three)]

    assert play(main()) == [True] * 5


def test_what_still_runs_is_no_background_process() -> None:
    async def main() -> tuple[Exit, str]:
        machine, ears = LocalMachine(), Ears()
        running = asyncio.create_task(machine.run("echo 1; read -t 0.2 < <(sleep 60); echo 2", cwd="/", on_output=ears))
        await ears.line()
        machine.kill_background()
        return await running, ears.text.decode()

    assert play(main()) == (Exit(0), "1\n2\n")


def test_a_tree_that_grows_while_it_is_killed_is_killed() -> None:
    # Every process starts two others and lives on, six deep: 127 of them, most not yet born when the killing begins.
    grow = "grow() { [ $1 -gt 6 ] || { grow $(($1+1)) & sleep 0.01; grow $(($1+1)) & }; sleep 60; }; echo $$; grow 0"

    async def main(clock: Clock) -> list[int]:
        machine, ears = LocalMachine(env={**os.environ, "TREE": "growing"}), Ears()
        running = asyncio.create_task(machine.run(grow, cwd="/", on_output=ears))
        await ears.line()
        await asyncio.to_thread(time.sleep, 0.02)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return _with_variable(b"TREE=growing")

    assert played(main) == []


def _with_variable(setting: bytes) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if setting in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


# The runner itself


def test_one_command_after_the_other_has_the_same_keeper() -> None:
    async def main() -> set[int]:
        machine = LocalMachine()
        found = set()
        for _ in range(10):
            await run(machine, "true")
            found |= set(children(newest_runner()))
        return found

    assert len(play(main())) == 1


@pytest.mark.promise("F19")
def test_many_commands_leave_no_zombie_one_keeper_and_no_descriptor() -> None:
    async def main() -> list[bool]:
        gc.collect()  # what earlier tests left
        dead = {pid for pid in children(os.getpid()) if state(pid) == "Z"}
        machine = LocalMachine()
        await run(machine, "true")
        runner = newest_runner()

        def descriptors(of: int) -> int:
            return len(os.listdir(f"/proc/{of}/fd"))

        before = {of: descriptors(of) for of in (os.getpid(), runner)}
        for _ in range(25):
            await run(machine, "true")
        await asyncio.gather(*(run(machine, "(sleep 0 &) & true", separate_streams=True) for _ in range(25)))
        # We hear of the last a moment later, and the runner another moment after us. Less than before is no leak.
        return [
            await comes(lambda: len(children(runner)) == 1),
            await comes(lambda: all(descriptors(of) <= most for of, most in before.items())),
            await comes(lambda: "Z" not in map(state, {*children(os.getpid())} - dead)),
        ]

    assert play(main()) == [True] * 3


def test_a_runner_killed_between_commands_is_replaced_unnoticed() -> None:
    async def main() -> list[tuple[Exit, str]]:
        machine = LocalMachine()
        first = await run(machine, "echo 1")
        runner = newest_runner()
        os.kill(runner, signal.SIGKILL)
        assert await gone(runner)
        return [first, *await asyncio.gather(run(machine, "echo 2"), run(machine, "echo 3"))]

    assert play(main()) == [(Exit(0), "1\n"), (Exit(0), "2\n"), (Exit(0), "3\n")]


def test_killed_commands_do_not_count_as_a_dead_supervisor(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> int:
        machine = LocalMachine()
        await run(machine, "true")
        runner = newest_runner()
        for _ in range(5):
            running = asyncio.create_task(run(machine, "touch /dev/null"))
            await asyncio.sleep(0)
            running.cancel()
            await asyncio.wait({running})
        await run(machine, "true")
        return newest_runner() - runner

    assert (play(main()), caplog.messages) == (0, [])


def test_a_runner_killed_during_a_command_is_an_error_that_can_be_read_and_takes_all_along() -> None:
    async def main() -> tuple[str, list[bool], tuple[Exit, str]]:
        machine, ears = LocalMachine(), Ears()
        running = asyncio.create_task(
            machine.run("setsid sleep 60 & echo $!; echo $$; sleep 60", cwd="/", on_output=ears)
        )
        processes = await ears.line(2)
        os.kill(newest_runner(), signal.SIGKILL)
        with pytest.raises(ToolError) as failed:
            await running
        return str(failed.value), [await gone(pid) for pid in processes], await run(machine, "echo again")

    assert play(main()) == (LOST, [True, True], (Exit(0), "again\n"))


def test_a_command_that_kills_its_keeper_dies_with_all_it_started() -> None:
    async def main() -> tuple[str, list[bool], tuple[Exit, str]]:
        machine, ears = LocalMachine(), Ears()
        with pytest.raises(ToolError) as failed:
            await machine.run(
                "setsid sleep 60 & echo $!; trap '' TERM; echo $$; kill -9 $PPID; sleep 60", cwd="/", on_output=ears
            )
        return str(failed.value), [await gone(pid) for pid in await ears.line(2)], await run(machine, "echo again")

    assert play(main()) == (LOST, [True, True], (Exit(0), "again\n"))


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "QUIT", "PIPE"])
def test_a_polite_signal_does_not_disturb_runner_or_keeper(name: str) -> None:
    above = r"$(sed 's/.*) . \([0-9]*\) .*/\1/' /proc/$PPID/stat)"
    command = f"kill -{name} $PPID {above}; sleep 0.05; echo fine"
    assert play(run(LocalMachine(), command)) == (Exit(0), "fine\n")


def test_the_runner_knows_no_secret_of_ours() -> None:
    async def main() -> bytes:
        machine = LocalMachine()
        await run(machine, "true")
        return Path(f"/proc/{newest_runner()}/environ").read_bytes()

    os.environ["TAU_TEST_SECRET"] = "hush"
    try:
        assert b"hush" not in play(main())
    finally:
        del os.environ["TAU_TEST_SECRET"]


def test_the_runner_is_small() -> None:
    async def main() -> int:
        machine = LocalMachine()
        await run(machine, "true")
        status = Path(f"/proc/{newest_runner()}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0])

    assert play(main()) < 16 * 1024  # KiB; a third of it is the interpreter's own file


# Without a runner


@pytest.fixture
def broken(tmp_path: Path) -> ProcessLauncher:
    program = tmp_path / "runner.py"
    program.write_text("raise SystemExit")
    return ProcessLauncher(program)


def test_where_a_runner_cannot_live_a_process_group_must_do(
    broken: ProcessLauncher, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> list[Any]:
        machine = LocalMachine(processes=broken)
        first = await asyncio.gather(*(run(machine, f"echo {n}") for n in range(3)))
        left = int((await run(machine, "sleep 60 & echo $!"))[1])
        machine.kill_background()
        late = await run(machine, "sleep 60", timeout=0.1)
        return [*first, await gone(left), late]

    assert play(main()) == [
        (Exit(0), "0\n"),
        (Exit(0), "1\n"),
        (Exit(0), "2\n"),
        True,
        (Exit(None, "SIGKILL", timed_out=True), ""),
    ]
    assert caplog.messages == [
        "no process supervisor: it ends at once; a process that leaves its group may outlive its command"
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["no-such-program"], "Cannot start 'no-such-program': No such file or directory"),
        (["echo", "x" * 3_000_000], "The command is too long for the system; write it to a file and run that"),
    ],
)
def test_a_group_that_cannot_be_started_says_the_same(words: list[str], said: str) -> None:
    with pytest.raises(ToolError) as failed:
        play(run(LocalMachine(env=PLAIN_PATH, processes=ProcessLauncher(Path("/no/runner/here"))), words))
    assert str(failed.value) == said
