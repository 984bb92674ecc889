"""Keys around the appearance of a permission question, in the whole program: see tests/long/questions.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.interface import Interface
from support.question_trials import ESCAPE, run_trials
from support.rpc_process import calls

ASKED = "Allow bash?"


@pytest.mark.promise("T04")
def test_no_key_that_is_meant_for_the_editor_answers_a_question(tmp_path: Path) -> None:
    found = run_trials(tmp_path, count=30, keys=15, seed=21)
    assert (found.answered, found.lost) == (0, 0)


def denied(tau: Interface) -> int:
    messages = [entry["message"] for entry in tau.session_entries() if entry["type"] == "message"]
    return sum("denied" in json.dumps(message) for message in messages if message["role"] == "toolResult")


def test_escape_denies_a_question_without_the_focus_and_the_run_goes_on(tmp_path: Path) -> None:
    script = [calls("echo made > made"), {"text": "It goes on."}]
    with Interface(tmp_path, "--permissions", "ask", script=script) as tau:
        tau.start().send("go")
        tau.wait("Tab answers")
        tau.type("draft")
        tau.wait("draft")
        tau.press("escape")
        tau.wait("It goes on.")
        tau.settle()
        assert denied(tau) == 1
        assert tau.box()[1] == "draft"


def test_four_questions_at_once_are_answered_one_by_one_and_escape_twice_stops_the_run(tmp_path: Path) -> None:
    script = [calls("echo 1 > 1", "echo 2 > 2", "echo 3 > 3", "echo 4 > 4"), {"text": "never"}]
    with Interface(
        tmp_path, "--permissions", "ask", script=script, settings={"toolExecution": "parallel"}, rows=40
    ) as tau:
        tau.start().send("go")
        tau.wait("1 of 4")
        tau.wait("Esc denies")
        tau.wait("→ 3 Deny")
        tau.press("1")
        tau.wait("1 of 3")
        tau.wait(lambda _: (tmp_path / "work" / "1").exists())
        tau.type(ESCAPE)
        tau.wait("1 of 2")
        tau.type(ESCAPE + ESCAPE)  # at once: twice is within half a second
        tau.wait("Stopped.")
        tau.settle()
        assert ASKED not in "\n".join(tau.screen())
        assert [name for name in "1234" if (tmp_path / "work" / name).exists()] == ["1"]
        assert "never" not in "\n".join(tau.screen())


def test_a_question_that_nobody_answers_ends_at_its_deadline_and_leaves_the_text(tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps({"otherwise": "ask", "deadline": 1}))
    script = [calls("echo made > made"), {"text": "It goes on."}]
    with Interface(tmp_path, "--permissions", f"rules {rules}", script=script) as tau:
        tau.start().send("go")
        tau.wait(ASKED)
        tau.type("draft")
        tau.wait("It goes on.")
        tau.settle()
        assert (denied(tau), tau.box()[1]) == (1, "draft")
