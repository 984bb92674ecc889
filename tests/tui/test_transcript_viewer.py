"""The transcript viewer at a terminal: /transcript and Alt+O."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from support.interface import Interface
from support.rpc_process import calls, endless

LONG = "\n\n".join(f"paragraph {number}" for number in range(60))


def viewing(tau: Interface) -> bool:
    return "1049" in tau.modes()


@pytest.mark.parametrize(("rows", "cols"), [(24, 80), (15, 40)])
def test_the_viewer_shows_the_whole_branch_and_the_screen_is_as_it_was(rows: int, cols: int, tmp_path: Path) -> None:
    with Interface(tmp_path, script=[{"text": LONG}], rows=rows, cols=cols) as tau:
        tau.start().send("hello there")
        tau.wait("paragraph 59")
        tau.settle()
        before = tau.screen(), tau.history(), tau.cursor(), tau.modes()
        tau.press("alt+o")
        tau.wait("Transcript · end")
        assert viewing(tau)
        tau.press("home")
        tau.wait("hello there")
        tau.type("/paragraph 30")
        tau.press("enter")
        tau.wait("paragraph 30")
        tau.type("q")
        tau.wait(lambda shown: "Transcript" not in shown)
        tau.wait_quiet()
        assert (tau.screen(), tau.history(), tau.cursor(), tau.modes()) == before


def test_the_viewer_follows_an_answer_and_escape_leaves_it_running(tmp_path: Path) -> None:
    with Interface(tmp_path, script=[endless("word\n\n")]) as tau:
        tau.start().send("go")
        tau.wait("word")
        tau.send("/transcript")
        tau.wait("Transcript · end")
        tau.wait("word")
        tau.press("escape")
        tau.wait("Working")
        assert not viewing(tau)


def test_a_run_that_ends_while_the_viewer_is_open_is_on_the_screen_afterwards(tmp_path: Path) -> None:
    with Interface(tmp_path, script=[calls("sleep 0.5; echo from the tool"), {"text": "the answer"}]) as tau:
        tau.start().send("go")
        tau.wait("sleep")
        tau.press("alt+o")
        tau.wait("Transcript")
        tau.wait("the answer")
        tau.type("q")
        tau.wait(lambda shown: "Transcript" not in shown and "the answer" in shown)
        tau.settle()
        assert "\n".join([*tau.history(), *tau.screen()]).count("the answer") == 1


def test_an_entry_is_opened_in_the_editor_and_copied(tmp_path: Path) -> None:
    program = tmp_path / "editor.py"
    program.write_text("import shutil, sys; shutil.copy(sys.argv[1], sys.argv[2])")
    opened = tmp_path / "opened"
    script = tmp_path / "editor.sh"
    script.write_text(f'#!/bin/sh\n{sys.executable} {program} "$1" {opened}\n')
    script.chmod(0o700)
    with Interface(tmp_path, script=[{"text": LONG}], settings={"externalEditor": str(script)}) as tau:
        tau.start().send("hello there")
        tau.wait("paragraph 59")
        tau.settle()
        tau.press("alt+o")
        tau.wait("Transcript · end")
        tau.type("e")
        tau.wait(lambda shown: opened.exists() and "Transcript · end" in shown)
        assert opened.read_text() == LONG
        tau.press("home")
        tau.type("c")
        tau.wait("Copied 11 characters")
        tau.type("q")
        tau.wait(lambda shown: "Transcript" not in shown)


def test_a_resize_in_the_viewer_draws_both_screens_again(tmp_path: Path) -> None:
    with Interface(tmp_path, script=[{"text": LONG}], answers="xterm") as tau:
        tau.start().send("hello there")
        tau.wait("paragraph 59")
        tau.settle()
        tau.press("alt+o")
        tau.wait("Transcript · end")
        tau.resize(20, 60)
        tau.wait(lambda shown: tau.screen()[19].startswith("Transcript") and "paragraph 59" in shown)
        tau.type("q")
        tau.wait(lambda shown: [row for row in shown.split("\n") if row.startswith("──")] == ["─" * 59] * 2)


def test_a_signal_in_the_viewer_restores_the_terminal(tmp_path: Path) -> None:
    with Interface(tmp_path, script=[{"text": "an answer"}]) as tau:
        tau.start().send("hi")
        tau.wait("an answer")
        tau.settle()
        tau.press("alt+o")
        tau.wait("Transcript · end")
        tau.signal(signal.SIGTERM)
        assert tau.wait_end() == 143
        tau.assert_restored()
        assert "an answer" in tau.screen()


def test_an_empty_session_has_no_transcript(tmp_path: Path) -> None:
    with Interface(tmp_path) as tau:
        tau.start().send("/transcript")
        tau.wait("The session is empty.")
