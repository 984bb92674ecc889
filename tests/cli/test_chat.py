"""The plain chat, at a real terminal. Nothing sleeps: every wait is for something on the screen."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import stat
import termios
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from client import WITHIN, Agent, Pipe, calls, endless, is_gone
from program import asked, start

SEQUENCE = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]|\r")


class Terminal:
    """A terminal, the program in front of it, and what can be read on its screen."""

    def __init__(self, folder: Path, *argv: str, **how: Any) -> None:
        self._handle, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, b"\x18\0\x64\0\0\0\0\0")  # 24 lines, 100 columns
        env = {"TERM": "dumb", **how.pop("env", {})}
        self.process = start(
            folder, *argv, stdin=theirs, stdout=theirs, stderr=theirs, env=env, preexec_fn=_own_terminal, **how
        )
        os.close(theirs)
        self.screen = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._handle)

    def write(self, keys: str) -> None:
        os.write(self._handle, keys.encode())

    def until(self, wanted: str) -> str:
        """What is shown up to here, and not again."""
        until = time.monotonic() + WITHIN
        while wanted not in self.screen:
            left = max(0.0, until - time.monotonic())
            assert select.select([self._handle], [], [], left)[0], f"no {wanted!r} on {self.screen!r}"
            assert self._read(), f"it ended without {wanted!r}: {self.screen!r}"
        shown, _, self.screen = self.screen.partition(wanted)
        return shown

    def ask(self, line: str) -> str:
        """Type a line when there is a prompt; what is shown until the next prompt."""
        self.until("> ")
        self.write(line + "\n")
        self.until(line)
        shown = self.until("> ")
        self.screen = "> " + self.screen
        return shown

    def code(self) -> int:
        """How it ends."""
        while self._read():
            pass
        return self.process.wait(WITHIN)

    def _read(self) -> bool:
        try:
            portion = os.read(self._handle, 65536)
        except OSError:  # nobody has the other end any more
            return False
        assert b"Traceback" not in portion, portion
        self.screen += SEQUENCE.sub(b"", portion).decode()
        return bool(portion)


def _own_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def said(folder: Path) -> list[str]:
    return [content[0]["text"] for content in asked(folder)]


def test_a_line_is_asked_and_answered_until_ctrl_d(tmp_path: Path) -> None:
    with Terminal(tmp_path, answers=[{"text": "Hello"}, {"text": "Bye"}]) as terminal:
        assert "/help tells what can be said" in terminal.until("\n")
        assert terminal.ask("hi").split("\n")[1:] == ["Hello", ""]
        assert terminal.ask("and now?").split("\n")[1:] == ["Bye", ""]
        terminal.write("\x04")
        assert terminal.code() == 0
    assert said(tmp_path) == ["hi", "and now?"]


def test_messages_of_the_command_line_are_asked_first(tmp_path: Path) -> None:
    with Terminal(tmp_path, "first words", answers=[{"text": "first answer"}, {"text": "second answer"}]) as terminal:
        terminal.until("first answer")
        assert "second answer" in terminal.ask("go on")
    assert said(tmp_path) == ["first words", "go on"]


def test_each_tool_call_is_one_line(tmp_path: Path) -> None:
    answers = [calls("echo one\necho two", "exit 3"), {"text": "done"}]
    with Terminal(tmp_path, answers=answers) as terminal:
        shown = terminal.ask("go").split("\n")
    assert shown[1:3] == ["* bash echo one echo two", "* bash exit 3"]
    assert "failed: " in shown[3] and shown[4:] == ["done", ""]


def test_ctrl_c_stops_the_answer_and_the_chat_goes_on(tmp_path: Path) -> None:
    with Terminal(tmp_path, answers=[endless("so far "), {"text": "again"}]) as terminal:
        terminal.until("> ")
        terminal.write("go\n")
        terminal.until("so far")
        terminal.write("\x03")
        terminal.until("Stopped.")
        assert "again" in terminal.ask("once more")
        terminal.write("\x04")
        assert terminal.code() == 0


def test_ctrl_c_stops_a_tool_with_its_processes(tmp_path: Path) -> None:
    with Pipe(tmp_path / "pid") as pipe:
        answers = [calls(f"trap '' INT; echo $$ >{pipe.path}; while :; do sleep 0.1; done"), {"text": "again"}]
        with Terminal(tmp_path, answers=answers) as terminal:
            terminal.until("> ")
            terminal.write("go\n")
            child = int(pipe.line())
            terminal.write("\x03")
            assert is_gone(child, within=WITHIN)
            assert "again" in terminal.ask("once more")


def test_ctrl_c_drops_the_line_that_is_being_written(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.until("> ")
        terminal.write("never mind")
        terminal.until("never mind")
        terminal.write("\x03")
        assert "ok" in terminal.ask("something else")
    assert said(tmp_path) == ["something else"]


def test_lines_can_be_edited_and_are_remembered(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.until("> ")
        terminal.write("wrng\x02\x02o\n")  # back twice, and a letter
        terminal.until("ok\n")
        terminal.until("> ")
        terminal.write("\x04")
        assert terminal.code() == 0
    with Terminal(tmp_path, "--continue") as terminal:
        terminal.until("> ")
        terminal.write("\x10\n")  # the line before
        terminal.until("ok\n")
    assert said(tmp_path) == ["wrong", "wrong"]
    assert stat.S_IMODE((tmp_path / "agent" / "tau_history").stat().st_mode) == 0o600


@pytest.mark.parametrize("line", ["/quit", "\x04"])
def test_there_are_two_ways_to_leave(line: str, tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.until("> ")
        terminal.write(line + ("\n" if line == "/quit" else ""))
        assert terminal.code() == 0


def test_the_commands_of_the_chat(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        listed = terminal.ask("/help")
        assert [word in listed for word in ("/help", "/new", "/model", "/compact", "/quit")] == [True] * 5
        assert "scripted/scripted, thinking medium" in terminal.ask("/model")
        assert "tau/demo" in terminal.ask("/model demo")
        assert 'Model "zork" not found' in terminal.ask("/model zork")
        assert "offline demo model" in terminal.ask("hello")
        assert "Error: " in terminal.ask("/compact")
        assert "A new session." in terminal.ask("/new")
        assert "understand" in terminal.ask("/what is this")
        terminal.write("\x04")
        assert terminal.code() == 0
    assert len(list((tmp_path / "agent" / "sessions").rglob("*.jsonl"))) == 2


def test_a_failure_is_told_and_the_chat_goes_on(tmp_path: Path) -> None:
    answers = [{"error": {"message": "401 bad key"}}, {"text": "better"}]
    with Terminal(tmp_path, answers=answers) as terminal:
        assert "Error: 401 bad key" in terminal.ask("one")
        assert "better" in terminal.ask("two")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_it_with_what_runs(number: signal.Signals, code: int, tmp_path: Path) -> None:
    with Pipe(tmp_path / "pid") as pipe:
        with Terminal(tmp_path, "go", answers=[calls(f"echo $$ >{pipe.path}; sleep 300")]) as terminal:
            child = int(pipe.line())
            terminal.process.send_signal(number)
            assert terminal.code() == code
        assert is_gone(child, within=WITHIN)
    assert said(tmp_path) == ["go"]


def test_a_signal_at_the_prompt(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.until("> ")
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.code() == 143


def test_a_session_that_was_chosen_is_gone_on_with(tmp_path: Path) -> None:
    with Agent(tmp_path, {"text": "one"}) as agent:
        agent.prompt("first words")
    with Terminal(tmp_path, "--resume") as terminal:
        assert "first words" in terminal.until("Which one? [1] ")
        terminal.write("1\n")
        assert "ok" in terminal.ask("and then")
    assert said(tmp_path) == ["first words", "and then"]


def test_the_answer_does_not_steer_the_terminal(tmp_path: Path) -> None:
    with Terminal(tmp_path, answers=[{"blocks": [{"text": ["\x1b", "]0;title\x07plain"]}]}]) as terminal:
        assert terminal.ask("hi") == "\nplain\n"


def test_print_mode_at_a_terminal_answers_and_ends(tmp_path: Path) -> None:
    with Terminal(tmp_path, "-p", "hi") as terminal:
        terminal.until("ok\n")
        assert terminal.code() == 0
