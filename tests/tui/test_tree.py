"""/tree and /fork at a terminal: navigate, label, summarise; what another branch shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.interface import Interface
from support.rpc_process import calls, endless

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


def test_ctrl_x_copies_the_entry(tmp_path: Path) -> None:
    with asked_twice(tmp_path) as tau:
        tau.send("/tree")
        tau.wait("← active")
        tau.press("ctrl+x")
        tau.wait("Copied 13 characters")
        tau.press("up")
        tau.wait("→ • user: two")


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


def big_session(file: Path, count: int) -> Path:
    """A session of prompts and answers, with a branch at every hundredth entry."""
    lines = [{"type": "session", "version": 3, "id": "big", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/"}]
    usage = {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2}
    usage["cost"] = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "total"), 0)  # type: ignore
    common = {"api": "x", "provider": "p", "model": "m", "usage": usage, "stopReason": "stop", "timestamp": 1}
    for at in range(count):
        parent = None if at == 0 else f"{at - 3 if at % 100 == 0 else at - 1:08x}"
        content = [{"type": "text", "text": f"{'answer' if at % 2 else 'prompt'} {at}"}]
        message = {"role": "user", "content": content, "timestamp": 1}
        if at % 2:
            message = {"role": "assistant", "content": content, **common}
        stamp = "2026-01-01T00:00:00.000Z"
        lines.append({"type": "message", "id": f"{at:08x}", "parentId": parent, "timestamp": stamp, "message": message})
    file.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    return file


def test_a_session_of_20_000_entries_in_tree_and_viewer(tmp_path: Path) -> None:
    with Interface(tmp_path, "--session", str(big_session(tmp_path / "big.jsonl", 20_000))) as tau:
        tau.start().wait("answer 19999")
        tau.wait_quiet()
        assert any("earlier messages · Alt+O" in row for row in tau.history())
        tau.send("/tree")
        tau.wait("answer 19999 ← active")
        tau.type("prompt 12344")
        tau.wait("1 of 1 ──")
        tau.press("escape")
        tau.press("escape")
        tau.wait(lambda shown: "Tree:" not in shown)
        tau.press("alt+o")
        tau.wait("Transcript · end")
        tau.press("home")
        tau.wait("prompt 0")
        tau.type("/answer 12345")
        tau.press("enter")
        tau.wait(lambda shown: "answer 12345" in shown and "prompt 12344" in shown)


def test_the_entry_that_was_active_when_the_tree_opened_can_be_chosen_after_the_run_went_on(tmp_path: Path) -> None:
    script = [calls("sleep 1"), {"text": "done"}]
    with Interface(tmp_path, script=script, settings={"branchSummary": {"skipPrompt": True}}) as tau:
        tau.start().send("go")
        tau.wait("sleep 1")
        tau.send("/tree")
        tau.wait("→ • assistant: [no text] ← active")
        tau.wait("done")
        tau.press("enter")
        tau.wait('branch at "no text"')


def test_the_active_entry_is_where_the_conversation_is(tmp_path: Path) -> None:
    with Interface(tmp_path, script=[{"text": "first answer"}]) as tau:
        tau.start().send("one")
        tau.wait("first answer")
        tau.settle()
        tau.send("/tree")
        tau.wait("→ • assistant: first answer ← active")
        tau.press("enter")
        tau.wait("already there")


def test_plain_mode_shows_the_tree_as_a_numbered_list(tmp_path: Path) -> None:
    with Interface(tmp_path, "--plain", script=[{"text": "first answer"}, {"text": "second answer"}]) as tau:
        tau.wait("\n>")
        tau.type("one\r")
        tau.wait("first answer")
        tau.type("two\r")
        tau.wait("second answer")
        tau.type("/tree\r")
        tau.wait("assistant: second answer")
        tau.type("1\r")
        tau.wait("Summarise the branch")
        tau.type("1\r")
        tau.wait('This is now: branch at "one"')
        tau.wait("The message was:")
