"""The wait before a retry in the whole program: it counts down, Enter ends it, Escape cancels it."""

from __future__ import annotations

from pathlib import Path

from support.interface import Interface
from support.rpc_process import Json, calls

FAILS: Json = {"text": "", "error": {"message": "529 overloaded"}}
SLOW_RETRIES = {"retry": {"baseDelayMs": 60_000, "maxRetries": 3}}


def test_the_wait_for_a_retry_counts_down_each_second_and_escape_ends_it(tmp_path: Path) -> None:
    with Interface(tmp_path, script=[FAILS], settings=SLOW_RETRIES, cols=100) as tau:
        tau.start().send("go")
        tau.wait("Try 1 of 3 in 60s")
        tau.wait("Try 1 of 3 in 59s")
        assert "Esc stops · Enter tries now" in "\n".join(tau.box())
        tau.press("escape")
        tau.wait("Retry cancelled.")
        tau.wait(lambda shown: "Try 1 of 3" not in shown)
    assert tau.prompts() == ["go"]


def test_enter_tries_again_at_once(tmp_path: Path) -> None:
    with Interface(tmp_path, script=[FAILS, {"text": "an answer"}], settings=SLOW_RETRIES, cols=100) as tau:
        tau.start().send("go")
        tau.wait("Try 1 of 3 in 60s")
        tau.press("enter")
        tau.wait("an answer")
        tau.settle()
        assert "Try 1 of 3" not in "\n".join(tau.screen())


def test_a_text_that_is_sent_while_a_retry_waits_is_queued(tmp_path: Path) -> None:
    with Interface(tmp_path, script=[FAILS, {"text": "an answer"}], settings=SLOW_RETRIES) as tau:
        tau.start().send("go")
        tau.wait("Try 1 of 3 in")
        tau.send("and this")
        tau.wait("Steering: and this")
        assert "Try 1 of 3" in "\n".join(tau.box())
        tau.press("enter")
        tau.wait("an answer")
        tau.settle()
    assert tau.prompts() == ["go", "and this"]


def test_escape_in_the_wait_for_a_retry_returns_queued_texts_to_the_editor(tmp_path: Path) -> None:
    with Interface(tmp_path, script=[FAILS], settings=SLOW_RETRIES) as tau:
        tau.start().send("go")
        tau.wait("Try 1 of 3 in")
        tau.send("and this")
        tau.wait("Steering: and this")
        tau.press("escape")
        tau.wait("Retry cancelled.")
        tau.wait(lambda shown: "Steering" not in shown)
        assert tau.box()[1] == "and this"


def test_escape_takes_back_what_a_failed_run_has_left_in_the_queue(tmp_path: Path) -> None:
    script = [calls("until [ -e goes-on ]; do sleep 0.05; done"), {"text": "", "error": {"message": "400 bad request"}}]
    with Interface(tmp_path, script=script) as tau:
        tau.start().send("go")
        tau.wait("Working")
        tau.type("later")
        tau.press("alt+enter")
        tau.wait("Follow-up: later")
        (tmp_path / "work" / "goes-on").touch()
        tau.wait(lambda shown: "400 bad request" in shown and "Working" not in shown)
        tau.wait("Follow-up: later")
        tau.press("escape")
        tau.wait(lambda shown: "Follow-up" not in shown)
        assert tau.box()[1] == "later"
