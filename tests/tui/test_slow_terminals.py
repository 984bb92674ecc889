"""Terminals that read slowly or not at all, are gone, or answer questions wrongly: the agent does not wait for them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli_process import PI
from support.interface import REDRAW, RULE, Interface
from support.question_trials import ESCAPE
from support.rpc_process import Json, endless

WITHIN_S = 60.0


def words(count: int) -> Json:
    return {"blocks": [{"text": [f"word{number}." + ("\n\n" if number % 8 == 7 else " ") for number in range(count)]}]}


def memory(tau: Interface) -> int:
    status = Path(f"/proc/{tau.process.pid}/status").read_text()
    found = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
    assert found
    return int(found[1]) * 1024


def wait_for_answers(tau: Interface, count: int) -> None:
    """Until the session file has so many answers, without reading what the program writes."""
    deadline = time.monotonic() + WITHIN_S
    while answers(tau) < count:
        assert time.monotonic() < deadline, f"{answers(tau)} answers in the session file"
        time.sleep(0.02)


def answers(tau: Interface) -> int:
    files = list((tau.folder / "agent" / "sessions").rglob("*.jsonl"))
    return sum(file.read_bytes().count(b'"role":"assistant"') for file in files)


@pytest.mark.promise("T12")
def test_a_terminal_that_is_not_read_does_not_stop_the_agent(tmp_path: Path) -> None:
    with Interface(tmp_path, script=[{"text": "ready"}, words(20_000)], keys=REDRAW) as tau:
        tau.start().send("hi")
        tau.wait("ready")
        tau.settle()
        before = memory(tau)
        tau.type("go\r")  # nothing is read from here on
        wait_for_answers(tau, 2)
        assert memory(tau) - before < 10_000_000
        tau.wait("word19999.", timeout=WITHIN_S)
        tau.settle()
        shown = "\n".join([*tau.history(), *tau.screen()])
        assert "lines not shown" in shown
        tau.assert_redraw_changes_nothing()
        tau.send("more")
        tau.press("ctrl+d")
        assert tau.wait_end() == 0
        tau.assert_restored()


@pytest.mark.promise("T11")
def test_keys_work_while_a_terminal_reads_a_kilobyte_at_a_time(tmp_path: Path) -> None:
    with Interface(tmp_path, script=[{**words(3_000), "delayMs": 1}, {"text": "again"}], keys=REDRAW) as tau:
        tau.start().send("go")
        tau.wait("Working")
        for _ in range(20):
            time.sleep(0.05)  # the pace of a slow line
            tau.read_some(1024)
        tau.type(ESCAPE)
        for _ in range(20):
            time.sleep(0.05)
            tau.read_some(1024)
        tau.wait("Stopped.", timeout=WITHIN_S)
        tau.settle()
        tau.assert_redraw_changes_nothing()


@pytest.mark.promise("T11")
def test_escape_stops_an_answer_that_arrives_as_fast_as_it_can(tmp_path: Path) -> None:
    flood = {"blocks": [{"text": ["word "]}], "repeat": 10_000_000}
    with Interface(tmp_path, script=[flood, {"text": "again"}]) as tau:
        tau.start().send("go")
        tau.wait("word word")
        tau.type(ESCAPE)
        tau.wait("Stopped.")
        tau.settle()
        tau.send("more")
        tau.wait("again")


# Answers of the terminal.

WRONG = (
    b"\x1b[?999999999999999999u\x1b]11;rgb:zz/\xff/;;;\x1b\\\x1b]11;\x07\x1b[?2026;99$y\x1b[?2004;$y\x1b[>c\x1b[>;;;c"
    b"\x1b[?c\x1b[?;;;;;c\x1bP>|\x00\x1b\\\x1b[8;0;0t\x1b[1;1R\x1b[I\x1b[O\x1b[?997;9n"
)
LATE = b"\x1b[?0u\x1b]11;rgb:ffff/ffff/ffff\x1b\\\x1b[?2026;2$y\x1b[?2004;2$y\x1b[>1;4000;38c\x1b[?62;22;52c"


def pieces(answers: bytes) -> Iterator[bytes]:
    """Cut anywhere but in the first two bytes of a sequence: if this machine pauses there, they are a key."""
    at = 0
    while at < len(answers):
        end = at + 7
        while answers[:end].endswith((b"\x1b", b"\x1b[", b"\x1b]", b"\x1bP")):
            end += 1
        yield answers[at:end]
        at = end


@pytest.mark.promise("T06")
@pytest.mark.parametrize("answers", [b"", WRONG, LATE, WRONG + LATE + LATE])
def test_missing_wrong_and_late_answers_of_the_terminal_are_never_keys(answers: bytes, tmp_path: Path) -> None:
    with Interface(tmp_path, answers="silent", script=[{"text": "fine"}]) as tau:
        tau.start().type("before ")
        tau.wait("before")
        for piece in pieces(answers):
            tau.type(piece)
        tau.type("after")
        tau.wait("after")
        tau.wait_quiet()
        assert tau.box()[1] == "before after"
        tau.press("enter")
        tau.wait("fine")
        tau.settle()
        tau.press("ctrl+d")
        assert tau.wait_end() == 0
        tau.assert_restored()
    assert tau.prompts() == ["before after"]


def test_a_program_without_stdin_leaves_the_terminal_alone(tmp_path: Path) -> None:
    closed = ["sh", "-c", 'exec "$@" <&-', "sh", *PI]
    with Interface(tmp_path, program=closed, script=[endless("so far ")]) as tau:
        tau.wait_quiet(1.0)
        if RULE in "\n".join(tau.screen()):
            tau.type("\x04")
        assert tau.wait_end() in (0, 1, 2)
        assert (tau.modes(), tau.settings_now()) == (set(), tau.settings)
        assert "Traceback" not in "\n".join(tau.screen())
