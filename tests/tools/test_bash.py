from __future__ import annotations

import asyncio
import os
import re
import resource
import time
from pathlib import Path
from typing import Any

import pytest

from support.virtual_clock import Clock, leapt, played
from tau.core.text.terminal_text import Cleaner
from tau.core.text.truncate import Tail
from tau.errors import ToolError
from tau.records.base import UNSET, to_builtins
from tau.records.events import Outcome
from tau.records.messages import Text
from tau.runtime.machine.local import LocalMachine, LocalSpill
from tau.tools import ToolContext
from tau.tools.bash import TOOL as BASH
from tau.tools.bash import CommandOutput, RateLimiter
from tau.tools.partial_result import CancelledWithResult

QUIET = {"truncation": None, "fullOutputPath": None}


def bash(cwd: Path, command: str, **args: Any) -> Outcome:
    return run_with_updates(cwd, command, **args)[0]


def run_with_updates(cwd: Path, command: str, **args: Any) -> tuple[Outcome, list[Outcome]]:
    updates: list[Outcome] = []
    context = ToolContext(LocalMachine(), str(cwd), updates.append)

    async def main() -> Outcome:
        return await BASH.run({"command": command, **args}, context)

    return asyncio.run(main()), updates


def failure(cwd: Path, command: str, **args: Any) -> str:
    with pytest.raises(ToolError) as failed:
        bash(cwd, command, **args)
    return str(failed.value)


def text(outcome: Outcome) -> str:
    [block] = outcome.content
    assert isinstance(block, Text)
    return block.text


def take_file(notice: str) -> bytes:
    """The file a notice names; it is removed."""
    found = re.search(r"Full output: (.*)\]", notice)
    assert found
    path = Path(found[1])
    data = path.read_bytes()
    path.unlink()
    return data


def test_both_streams_are_the_result(tmp_path: Path) -> None:
    assert bash(tmp_path, "echo hello; echo err >&2") == Outcome([Text("hello\nerr\n")], UNSET)


def test_silence_is_said(tmp_path: Path) -> None:
    assert bash(tmp_path, "true") == Outcome([Text("(no output)")], UNSET)


def test_escape_sequences_and_controls_are_left_in(tmp_path: Path) -> None:
    assert text(bash(tmp_path, r"printf '\033[31mred\033[0m\r\n\001\0'")) == "\x1b[31mred\x1b[0m\r\n\x01\0"


def test_bytes_that_are_no_text_break_nothing(tmp_path: Path) -> None:
    assert text(bash(tmp_path, r"printf '\377a\303'; sleep 0.05; printf '\251\342'")) == "\ufffdaé\ufffd"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo out; exit 3", "out\n\n\nCommand exited with code 3"),
        ("exit 1", "(no output)\n\nCommand exited with code 1"),
        ("echo a; kill -9 $$", "a\n\n\nCommand was killed by signal SIGKILL"),
    ],
)
def test_a_failure_is_an_error_with_the_output(command: str, said: str, tmp_path: Path) -> None:
    assert failure(tmp_path, command) == said


@pytest.mark.parametrize(
    ("command", "timeout", "said"),
    [
        ("echo start; sleep 60", 1.0, "start\n\n\nCommand timed out after 1 seconds"),
        ("sleep 60", 0.2, "Command timed out after 0.2 seconds"),
    ],
)
def test_a_command_out_of_time_says_so(command: str, timeout: float, said: str, tmp_path: Path) -> None:
    async def main(clock: Clock) -> None:
        heard = asyncio.Event()

        def progress(outcome: Outcome) -> None:
            if outcome.content or "echo" not in command:
                heard.set()
            else:
                clock.let_pass(0.1)  # the next update comes as soon as there is one

        context = ToolContext(LocalMachine(), str(tmp_path), progress)
        running = asyncio.ensure_future(BASH.run({"command": command, "timeout": timeout}, context))
        await heard.wait()
        clock.let_pass(timeout)
        await running

    with pytest.raises(ToolError) as failed:
        played(main)
    assert str(failed.value) == said


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan")])
def test_a_timeout_that_is_none_is_refused(timeout: float, tmp_path: Path) -> None:
    assert failure(tmp_path, "touch ran", timeout=timeout).startswith("timeout must be")
    assert not (tmp_path / "ran").exists()


# Stopping


def stopped(cwd: Path, command: str, until: str) -> str:
    async def main() -> str:
        heard = asyncio.Event()

        def progress(outcome: Outcome) -> None:
            if outcome.content and until in text(outcome):
                heard.set()

        context = ToolContext(LocalMachine(), str(cwd), progress)
        running = asyncio.ensure_future(BASH.run({"command": command}, context))
        await asyncio.sleep(0)  # it is started
        if until:
            await heard.wait()
        running.cancel()
        try:
            await running
        except CancelledWithResult as stop:
            assert running.cancelled()
            return stop.text
        raise AssertionError("not cancelled")

    return asyncio.run(main())


def test_a_cancelled_command_leaves_what_it_said(tmp_path: Path) -> None:
    assert stopped(tmp_path, "echo begin; sleep 60", until="begin\n") == "begin\n\n\nCommand aborted"


def test_a_cancelled_command_that_said_nothing_was_aborted(tmp_path: Path) -> None:
    assert stopped(tmp_path, "sleep 60", until="") == "Command aborted"


def test_long_output_of_a_cancelled_command_is_cut_and_kept(tmp_path: Path) -> None:
    said = stopped(tmp_path, "seq 1 5000; sleep 60", until="5000")
    assert said.endswith("]\n\nCommand aborted")
    assert "[Showing lines 3001-5000 of 5000. " in said
    assert take_file(said).endswith(b"\n5000\n")


# Long output


def test_5000_lines_show_the_last_2000(tmp_path: Path) -> None:
    outcome = bash(tmp_path, "seq 1 5000")
    shown = "\n".join(map(str, range(3001, 5001)))
    path = outcome.details["fullOutputPath"]
    assert text(outcome) == f"{shown}\n\n[Showing lines 3001-5000 of 5000. Full output: {path}]"
    assert to_builtins(outcome.details["truncation"]) == {
        "content": shown,
        "truncated": True,
        "truncatedBy": "lines",
        "totalLines": 5000,
        "totalBytes": 23893,
        "outputLines": 2000,
        "outputBytes": 9999,
        "lastLinePartial": False,
        "firstLineExceedsLimit": False,
        "maxLines": 2000,
        "maxBytes": 51200,
    }
    assert take_file(text(outcome)) == "".join(f"{n}\n" for n in range(1, 5001)).encode()


def test_many_bytes_show_the_last_whole_lines(tmp_path: Path) -> None:
    said = text(bash(tmp_path, "for i in $(seq 1 100); do printf '%01000d\\n' $i; done"))
    assert said.startswith(f"{50:01000d}\n")
    assert "\n\n[Showing lines 50-100 of 100 (50.0KB limit). Full output: " in said
    assert len(take_file(said)) == 100_100


def test_one_long_line_shows_its_end(tmp_path: Path) -> None:
    said = text(bash(tmp_path, "head -c 200000 /dev/zero | tr '\\0' x"))
    assert said.startswith("x" * 51200 + "\n\n[Showing last 50.0KB of line 1 (line is 195.3KB). Full output: ")
    assert take_file(said) == b"x" * 200_000


def test_a_failure_with_long_output_names_the_file_too(tmp_path: Path) -> None:
    said = failure(tmp_path, "seq 1 5000; exit 2")
    assert said.endswith("]\n\nCommand exited with code 2")
    assert take_file(said).startswith(b"1\n2\n")


@pytest.mark.promise("F03")
def test_endless_output_needs_little_memory_and_time(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started, busy = time.monotonic(), time.process_time()
    outcome, updates = run_with_updates(tmp_path, "yes | head -c 200000000")
    took, busy = time.monotonic() - started, time.process_time() - busy
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    file = take_file(text(outcome))
    assert "\n[Showing lines 99998001-100000000 of 100000000. Full output: " in text(outcome)
    assert file[100 * 1024 * 1024 :] == b"\n[Only the first 100.0MB of the output are kept]\n"
    assert grown < 16 * 1024  # KiB
    assert busy < 5
    assert len(updates) <= took / 0.1 + 3


def test_a_file_that_cannot_be_made_is_no_reason_to_fail(tmp_path: Path) -> None:
    def full() -> LocalSpill:
        raise OSError(28, "No space left on device")

    output = CommandOutput(Tail(), full)
    output.feed(b"x\n" * 3000)
    output.feed(b"y\n")
    output.end()
    assert output.path is None
    assert output.location_note() == "The full output could not be saved: No space left on device"


def test_the_file_holds_everything_even_if_little_of_it_is_text() -> None:
    output = CommandOutput(Tail(cleaner=Cleaner()), LocalMachine().spill)
    for _ in range(10_000):
        output.feed(b"\x1b[31m\x1b[0m")
    output.end()
    assert output.tail.truncation().content == ""
    assert output.path
    assert Path(output.path).read_bytes() == b"\x1b[31m\x1b[0m" * 10_000
    os.unlink(output.path)


# Progress


def test_a_command_that_has_begun_shows_that_there_is_nothing_yet(tmp_path: Path) -> None:
    assert run_with_updates(tmp_path, "true")[1] == [Outcome([])]


def test_every_update_holds_all_so_far(tmp_path: Path) -> None:
    updates: list[Outcome] = []

    def progress(update: Outcome) -> None:
        if not update.content:
            return
        updates.append(update)
        (tmp_path / str(len(updates))).touch()  # which is what the command waits for

    wait = "until [ -e {} ]; do sleep 0.01; done".format
    context = ToolContext(LocalMachine(), str(tmp_path), progress)

    async def main() -> Outcome:
        return await BASH.run({"command": f"echo one; {wait(1)}; echo two; {wait(2)}; echo three"}, context)

    assert asyncio.run(main()) == Outcome([Text("one\ntwo\nthree\n")], UNSET)
    assert updates == [Outcome([Text(said)], QUIET) for said in ("one\n", "one\ntwo\n", "one\ntwo\nthree\n")]


def test_a_quick_command_tells_little_but_its_last_state(tmp_path: Path) -> None:
    started = time.monotonic()
    outcome, updates = run_with_updates(tmp_path, "for i in $(seq 1 1000); do echo $i; done")
    assert len(updates) <= (time.monotonic() - started) / 0.1 + 3
    assert updates[-1].content == outcome.content


def test_an_update_of_long_output_carries_the_record(tmp_path: Path) -> None:
    outcome, updates = run_with_updates(tmp_path, "seq 1 5000; sleep 0.2")
    assert updates[-1] == Outcome([Text(outcome.details["truncation"].content)], outcome.details)
    take_file(text(outcome))


def test_a_ticker_tells_held_back_news_when_its_time_comes() -> None:
    async def main() -> list[int]:
        ticks: list[int] = []
        seen: list[int] = []
        done = asyncio.Event()

        def tell() -> None:
            seen.append(len(ticks))
            if len(ticks) == 3:
                done.set()

        ticker = RateLimiter(tell, period=0.05)
        for number in (1, 2, 3):
            ticks.append(number)
            ticker.trigger()
        await done.wait()
        return seen

    assert leapt(main()) == [1, 3]
