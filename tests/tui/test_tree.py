"""/tree and /fork at a terminal: navigate, label, summarise; what another branch shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.interface import Interface
from support.rpc_process import endless

SIZES = [(24, 80), (15, 40)]


def asked_twice(folder: Path, *more: object, **how: object) -> Interface:
    """tau after two prompts and their answers."""
    tau = Interface(folder, script=[{"text": "first answer"}, {"text": "second answer"}, *more], **how)  # type: ignore
    tau.start().send("one")
    tau.wait("first answer")
    tau.settle()
    tau.send("two")
    tau.wait("second answer")
    tau.settle()
    return tau


@pytest.mark.parametrize(("rows", "cols"), SIZES)
def test_tree_continues_before_a_prompt_which_is_then_in_the_editor(rows: int, cols: int, tmp_path: Path) -> None:
    with asked_twice(tmp_path, {"text": "third answer"}, rows=rows, cols=cols) as tau:
        tau.send("/tree")
        tau.wait("← active")
        tau.press("up")
        tau.wait("→ • user: two")
        tau.press("enter")
        tau.wait("Summarise the branch")
        tau.press("enter")
        tau.wait('branch at "two" · 2 messages')
        tau.wait(lambda shown: tau.box()[1:2] == ["two"])
        assert "second answer" in "\n".join([*tau.history(), *tau.screen()])  # nothing was wiped
        tau.type(" again")
        tau.press("enter")
        tau.wait("third answer")
        tau.settle()
    users = [entry for entry in tau.session_entries() if entry.get("message", {}).get("role") == "user"]
    assert [entry["message"]["content"][0]["text"] for entry in users] == ["one", "two", "two again"]
    assert users[1]["parentId"] == users[2]["parentId"]


def test_double_escape_opens_the_tree_and_escape_leaves_it(tmp_path: Path) -> None:
    with asked_twice(tmp_path) as tau:
        tau.press("escape")
        tau.press("escape")
        tau.wait("Tree: default")
        tau.press("escape")
        tau.wait(lambda shown: "Tree:" not in shown)
        assert tau.box()[1] == ""


def test_a_label_is_set_in_the_tree_and_shown_again(tmp_path: Path) -> None:
    with asked_twice(tmp_path) as tau:
        tau.send("/tree")
        tau.wait("← active")
        tau.press("up")
        tau.type("L")
        tau.wait("── Label")
        tau.type("here")
        tau.press("enter")
        tau.wait("[here] user: two")
        tau.press("ctrl+l")
        tau.wait("labeled-only")
        tau.press("escape")
        tau.wait(lambda shown: "Tree:" not in shown)
    (label,) = [entry for entry in tau.session_entries() if entry["type"] == "label"]
    assert label["label"] == "here"


def test_the_branch_that_is_left_is_summarised(tmp_path: Path) -> None:
    with asked_twice(tmp_path, {"text": "what was done"}) as tau:
        tau.send("/tree")
        tau.wait("← active")
        tau.press("up")
        tau.press("enter")
        tau.wait("Summarise the branch")
        tau.press("down")
        tau.press("enter")
        tau.wait('branch at "two"')
        tau.wait("Summary of the abandoned branch")
    (summary,) = [entry for entry in tau.session_entries() if entry["type"] == "branch_summary"]
    assert "what was done" in summary["summary"]


def test_escape_cancels_the_summary_and_shows_the_tree_again(tmp_path: Path) -> None:
    with asked_twice(tmp_path, endless("so far ")) as tau:
        tau.send("/tree")
        tau.wait("← active")
        tau.press("up")
        tau.press("enter")
        tau.wait("Summarise the branch")
        tau.press("down")
        tau.press("enter")
        tau.wait("Summarising the branch")
        tau.press("escape")
        tau.wait("the conversation is where it was")
        tau.wait("→ • user: two")
    assert not [entry for entry in tau.session_entries() if entry["type"] == "branch_summary"]


def test_the_tree_opens_while_an_answer_streams_and_stops_it(tmp_path: Path) -> None:
    script = [{"text": "first answer"}, endless("so far ")]
    with Interface(tmp_path, script=script, settings={"branchSummary": {"skipPrompt": True}}) as tau:
        tau.start().send("one")
        tau.wait("first answer")
        tau.settle()
        tau.send("two")
        tau.wait("so far")
        tau.send("/tree")
        tau.wait("Tree: default")
        tau.press("up")
        tau.wait("→ • assistant: first answer")
        tau.press("enter")
        tau.wait('branch at "first answer" · 2 messages')
        tau.settle()


def test_fork_says_what_it_is_now_and_returns_the_prompt(tmp_path: Path) -> None:
    with asked_twice(tmp_path) as tau:
        tau.send("/name parser")
        tau.wait("Session name: parser")
        tau.send("/fork")
        tau.wait("Fork before")
        tau.press("enter")
        tau.wait('fork of "parser" · 2 messages')
        tau.wait(lambda shown: tau.box()[1:2] == ["two"])
