"""The title of the window and notifications, as a terminal gets them."""

from __future__ import annotations

from pathlib import Path

from support.cli_process import PROGRAMS
from support.interface import Interface
from support.rpc_process import calls, endless

LOST_FOCUS = b"\x1b[O"


def test_the_title_tells_the_name_and_the_work_and_is_restored(tmp_path: Path) -> None:
    with Interface(tmp_path, script=[endless("so far ")], program=PROGRAMS["tau"]) as tau:
        tau.start().send("/name parser")
        tau.wait("Session name: parser")
        tau.wait_raw(b"\x1b]2;tau: parser\x1b\\")
        tau.send("go")
        tau.wait_raw("\x1b]2;✳ tau: parser\x1b\\".encode())
        tau.wait("so far")
        tau.press("escape")
        tau.wait("Stopped")
        tau.settle()
        assert tau.recorder.titles[-1] == "tau: parser"
        assert "title" in tau.modes()
        tau.press("ctrl+d")
        assert tau.wait_end() == 0
        assert tau.modes() == set()


def test_a_question_that_waits_without_the_focus_is_announced(tmp_path: Path) -> None:
    sent = b"\x1bPtmux;\x1b\x1b]9;tau: A question waits for your answer"
    env = {"TERM_PROGRAM": "ghostty", "TMUX": "/tmp/t,1,0"}
    script, asks = [calls("echo 1"), {"text": "ok"}], ("--permissions", "ask")
    with Interface(tmp_path, *asks, script=script, env=env, program=PROGRAMS["tau"]) as tau:
        tau.start().type(LOST_FOCUS)
        tau.send("go")
        tau.wait("Deny")
        tau.wait_raw("\x1b]2;● tau: ".encode())
        assert sent not in tau.raw()
        tau.wait_raw(sent)


def test_started_as_pi_the_title_is_that_of_pi(tmp_path: Path) -> None:
    with Interface(tmp_path) as pi:
        pi.start().send("/name parser")
        pi.wait("Session name: parser")
        pi.settle()
        assert pi.recorder.titles == ["π - work", "π - parser - work"]


def test_a_title_of_an_answer_or_a_name_brings_no_sequence(tmp_path: Path) -> None:
    with Interface(tmp_path, script=[{"text": "ok"}]) as tau:
        tau.start()
        tau.paste("/name a\x1b]2;evil\x07b")
        tau.wait("/name")
        tau.press("enter")
        tau.wait("Session name:")
        tau.settle()
        assert all("\x1b" not in title and "\x07" not in title for title in tau.recorder.titles)
        assert b"\x1b]2;evil" not in tau.raw()
