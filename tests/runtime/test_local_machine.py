from __future__ import annotations

import asyncio
import os
import re
import stat
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from support.rpc_process import is_gone, quick
from support.virtual_clock import Clock, played
from tau.errors import ToolError
from tau.runtime.machine.local import LocalMachine
from tau.tools import Exit, Stream

WITHIN = 30.0  # seconds; only a failure takes them all

Said = list[tuple[Stream, bytes]]


class Ears:
    """Keeps what a command said, and can wait until it said something."""

    def __init__(self) -> None:
        self.said: Said = []
        self.first = asyncio.Event()

    def __call__(self, stream: Stream, data: bytes) -> None:
        self.said.append((stream, data))
        self.first.set()

    @property
    def text(self) -> bytes:
        return b"".join(data for _, data in self.said)


def run(command: str, cwd: Path, machine: LocalMachine | None = None, **options: object) -> tuple[Exit, bytes]:
    async def main() -> tuple[Exit, bytes]:
        ears = Ears()
        exit = await (machine or LocalMachine()).run(command, cwd=str(cwd), on_output=ears, **options)  # type: ignore[arg-type]
        return exit, ears.text

    return asyncio.run(main())


def seconds(work: Callable[[], object]) -> float:
    before = time.monotonic()
    work()
    return time.monotonic() - before


def is_alive(pid: int) -> bool:
    return not is_gone(pid, within=0)


async def gone(pid: int) -> bool:
    until = time.monotonic() + WITHIN
    while (alive := is_alive(pid)) and time.monotonic() < until:
        await asyncio.sleep(0)
    return not alive


def test_the_output_and_the_code_come_back(tmp_path: Path) -> None:
    assert run("echo out; echo err >&2; exit 3", tmp_path) == (Exit(3), b"out\nerr\n")


def test_a_signal_has_its_name(tmp_path: Path) -> None:
    assert run("kill -9 $$", tmp_path) == (Exit(None, "SIGKILL"), b"")
    assert run("kill -TERM $$", tmp_path) == (Exit(None, "SIGTERM"), b"")


def test_a_command_runs_in_the_directory_it_is_given(tmp_path: Path) -> None:
    assert run("pwd -P", tmp_path) == (Exit(0), f"{tmp_path.resolve()}\n".encode())


@pytest.mark.promise("F04")
def test_stdin_is_empty(tmp_path: Path) -> None:
    assert run("cat; echo end", tmp_path) == (Exit(0), b"end\n")


def test_a_command_knows_that_an_agent_runs_it(tmp_path: Path) -> None:
    machine = LocalMachine(env={"PATH": os.environ["PATH"], "MINE": "1"})
    assert run("echo $MINE $PI_CODING_AGENT $AI_AGENT $HOME", tmp_path, machine) == (Exit(0), b"1 true pi\n")


@pytest.mark.promise("F25")
def test_only_the_three_standard_descriptors_are_inherited(tmp_path: Path) -> None:
    with open(tmp_path / "secret", "w") as file:
        os.set_inheritable(file.fileno(), True)
        assert run("ls /proc/$$/fd; true", tmp_path) == (Exit(0), b"0\n1\n2\n")


def test_a_prefix_stands_before_every_command(tmp_path: Path) -> None:
    assert run("twice", tmp_path, LocalMachine(prefix="twice() { echo a a; }")) == (Exit(0), b"a a\n")


def test_another_shell_can_be_chosen(tmp_path: Path) -> None:
    assert run("echo ${BASH_VERSION:-none}", tmp_path, LocalMachine(shell_path="/bin/sh"))[1] == b"none\n"


def test_a_shell_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"^Custom shell path not found: /no/such/shell$"):
        run("true", tmp_path, LocalMachine(shell_path="/no/such/shell"))


@pytest.mark.promise("F05")
def test_a_directory_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolError) as failed:
        run("true", tmp_path / "gone")
    assert str(failed.value) == f"Working directory does not exist: {tmp_path}/gone\nCannot execute bash commands."


@pytest.mark.promise("F16", "F17")
@pytest.mark.parametrize("command", ["echo a\0b", "echo \ud800", "echo " + "x" * 3_000_000])
def test_a_command_no_system_can_start_is_refused(command: str, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="command"):
        run(command, tmp_path)


def test_both_streams_come_as_one_in_true_order(tmp_path: Path) -> None:
    assert run("for i in 1 2 3; do echo o$i; echo e$i >&2; done", tmp_path)[1] == b"o1\ne1\no2\ne2\no3\ne3\n"


def test_streams_can_be_kept_apart(tmp_path: Path) -> None:
    async def main() -> Said:
        ears = Ears()
        await LocalMachine().run("echo a; echo b >&2", cwd=str(tmp_path), on_output=ears, separate_streams=True)
        return ears.said

    for _ in range(20):
        assert asyncio.run(main()) == [("stdout", b"a\n"), ("stderr", b"b\n")]


# Background processes


@pytest.mark.promise("F01")
def test_a_background_child_that_holds_the_pipe_does_not_hold_the_command(tmp_path: Path) -> None:
    machine = LocalMachine()
    quick(lambda: seconds(lambda: run("sleep 60 & echo started", tmp_path, machine)), 1)
    machine.kill_all()


def test_a_background_child_that_never_stops_talking_does_not_hold_the_command(tmp_path: Path) -> None:
    def measure() -> float:
        machine = LocalMachine()
        took = seconds(
            lambda: asyncio.run(machine.run("yes &", cwd=str(tmp_path), on_output=lambda stream, data: None))
        )
        machine.kill_all()
        return took

    quick(measure, 2)


def test_what_was_written_before_the_shell_ended_is_never_lost(tmp_path: Path) -> None:
    machine = LocalMachine()
    assert run("sleep 60 & seq 1 100000", tmp_path, machine)[1].endswith(b"\n100000\n")
    machine.kill_all()


def test_a_late_word_of_a_child_is_still_heard(tmp_path: Path) -> None:
    async def main(clock: Clock) -> list[bytes]:
        ears = Ears()
        await LocalMachine().run("(sleep 0; echo late) & echo soon", cwd=str(tmp_path), on_output=ears)
        return sorted(ears.text.split())

    assert played(main) == [b"late", b"soon"]


def test_the_way_out_kills_background_children_too(tmp_path: Path) -> None:
    async def main() -> bool:
        machine, ears = LocalMachine(), Ears()
        await machine.run("sleep 60 & echo $!", cwd=str(tmp_path), on_output=ears)
        assert is_alive(int(ears.text))
        machine.kill_all()
        return await gone(int(ears.text))

    assert asyncio.run(main())


def test_the_way_out_kills_what_runs(tmp_path: Path) -> None:
    async def main() -> Exit:
        machine, ears = LocalMachine(), Ears()
        running = asyncio.create_task(machine.run("echo go; sleep 60", cwd=str(tmp_path), on_output=ears))
        await ears.first.wait()
        machine.kill_all()
        return await running

    assert asyncio.run(main()) == Exit(None, "SIGKILL")


# Stopping

STUBBORN = "trap '' TERM INT HUP; sleep 60 & echo $$ $!; while :; do sleep 1; done"


def test_a_command_out_of_time_is_killed_with_its_children(tmp_path: Path) -> None:
    async def main(clock: Clock) -> tuple[Exit, list[bool]]:
        ears = Ears()
        running = asyncio.create_task(LocalMachine().run(STUBBORN, cwd=str(tmp_path), on_output=ears, timeout=10))
        await ears.first.wait()
        clock.let_pass(10)
        return await running, [await gone(int(pid)) for pid in ears.text.split()]

    assert played(main) == (Exit(None, "SIGKILL", timed_out=True), [True, True])


def test_a_cancelled_command_is_dead_with_its_children_before_the_call_returns(tmp_path: Path) -> None:
    async def main(clock: Clock) -> list[bool]:
        ears = Ears()
        running = asyncio.create_task(LocalMachine().run(STUBBORN, cwd=str(tmp_path), on_output=ears))
        await ears.first.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        shell, child = map(int, ears.text.split())
        return [not is_alive(shell), await gone(child)]

    assert played(main) == [True, True]


def test_the_last_words_of_a_cancelled_command_are_heard(tmp_path: Path) -> None:
    async def main() -> bytes:
        ears = Ears()
        running = asyncio.create_task(
            LocalMachine().run("echo a; touch b; sleep 60", cwd=str(tmp_path), on_output=ears)
        )
        await asyncio.sleep(0)
        while not (tmp_path / "b").exists():
            time.sleep(0.01)  # the loop must not hear it yet
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return ears.text

    assert asyncio.run(main()) == b"a\n"


def test_a_timeout_around_the_call_works_as_usual(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(0.1):
            await LocalMachine().run("sleep 60", cwd=str(tmp_path), on_output=Ears())

    with pytest.raises(TimeoutError):
        asyncio.run(main())


def test_a_failure_of_the_listener_kills_the_command_and_is_passed_on(tmp_path: Path) -> None:
    def deaf(stream: Stream, data: bytes) -> None:
        raise ZeroDivisionError

    async def main() -> None:
        await LocalMachine().run("echo a; sleep 60", cwd=str(tmp_path), on_output=deaf)

    with pytest.raises(ZeroDivisionError):
        asyncio.run(main())


def test_nothing_is_left_over_after_many_commands(tmp_path: Path) -> None:
    def descriptors() -> set[tuple[str, str]]:
        found = {(name, f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")}
        return {(name, os.readlink(link)) for name, link in found if os.path.lexists(link)}

    async def all_over(machine: LocalMachine) -> None:
        """A command has ended when its shell has; the line to it is open until nothing of it is left."""
        async with asyncio.timeout(WITHIN):
            await asyncio.gather(*(job.ended for job in machine._jobs[0]))

    async def main() -> set[tuple[str, str]]:
        machine = LocalMachine()
        await machine.run("true", cwd=str(tmp_path), on_output=Ears())
        await all_over(machine)
        before = descriptors()
        for apart in (True, False) * 5:
            await machine.run("echo a; echo b >&2", cwd=str(tmp_path), on_output=Ears(), separate_streams=apart)
        await all_over(machine)
        return descriptors() - before

    assert asyncio.run(main()) == set()


def test_many_commands_run_at_once(tmp_path: Path) -> None:
    async def main() -> list[Exit]:
        machine = LocalMachine()
        return await asyncio.gather(
            *(machine.run(f"sleep 0.3; exit {n}", cwd=str(tmp_path), on_output=Ears()) for n in range(20))
        )

    assert asyncio.run(main()) == [Exit(n) for n in range(20)]


def test_work_in_a_thread_does_not_block_the_loop(tmp_path: Path) -> None:
    async def main() -> str:
        machine = LocalMachine()
        first, second = os.pipe()
        waiting: Awaitable[bytes] = asyncio.create_task(machine.in_thread(lambda: os.read(first, 1)))
        await machine.in_thread(lambda: os.write(second, b"x"))
        return (await waiting).decode()

    assert asyncio.run(main()) == "x"


# Files for long output


@pytest.mark.promise("F20")
def test_a_spill_file_is_private_and_has_an_unpredictable_name() -> None:
    spill = LocalMachine().spill()
    spill.write(b"a")
    spill.write(b"b")
    spill.close()
    spill.close()
    path = Path(spill.path)
    assert path.read_bytes() == b"ab"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert re.fullmatch(r"pi-bash-[0-9a-f]{16}\.log", path.name)
    path.unlink()


@pytest.mark.promise("F03")
def test_a_spill_stops_at_its_limit_and_says_so() -> None:
    spill = LocalMachine(spill_limit=2048).spill()
    for _ in range(3):
        spill.write(b"x" * 1000)
    spill.write(b"y")
    spill.close()
    path = Path(spill.path)
    assert path.read_bytes() == b"x" * 2048 + b"\n[Only the first 2.0KB of the output are kept]\n"
    path.unlink()


def test_a_full_disk_does_not_disturb_the_command() -> None:
    spill = LocalMachine().spill()
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, spill._file)
    os.close(full)
    spill.write(b"lost")
    spill.write(b"lost too")
    spill.close()
    Path(spill.path).unlink()


def test_what_waits_for_the_network_does_not_keep_tools_from_their_work() -> None:
    """Asyncio looks up the names of hosts in threads of its own, and all of them may be held up at once."""
    answered = threading.Event()

    async def main() -> str:
        loop = asyncio.get_running_loop()
        lookups = [loop.run_in_executor(None, answered.wait, WITHIN) for _ in range(100)]
        try:
            async with asyncio.timeout(WITHIN / 2):
                return await LocalMachine().in_thread(lambda: "done")
        finally:
            answered.set()
            await asyncio.gather(*lookups)

    assert asyncio.run(main()) == "done"


def test_work_in_a_thread_leaves_no_thread() -> None:
    async def main() -> None:
        machine = LocalMachine()
        await asyncio.gather(*(machine.in_thread(lambda: time.sleep(0.001)) for _ in range(50)))

    asyncio.run(main())
    for thread in threading.enumerate():
        if thread.name == "tau work":
            thread.join(WITHIN)
            assert not thread.is_alive()


def test_what_a_thread_raises_is_raised() -> None:
    async def main() -> None:
        await LocalMachine().in_thread(lambda: next(iter(())))

    with pytest.raises(RuntimeError, match="StopIteration"):
        asyncio.run(main())
