"""What a person takes out of a session: copies of the answer, exported files, the summary at the end."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from pathlib import Path

import pytest

from support.cli_process import PI
from support.interface import Interface
from support.rpc_process import endless

ANSWER = "Two ways:\n\n```python\nprint(1)\n```\n\nor\n\n```sh\necho 1\n```\n"
NO_CLIPBOARD = {"DISPLAY": "", "WAYLAND_DISPLAY": ""}


def copied(tau: Interface) -> list[str]:
    """The texts that the terminal was asked to copy."""
    return [base64.b64decode(data).decode() for data in re.findall(rb"\x1b\]52;c;([A-Za-z0-9+/=]*)\x07", tau.raw())]


def test_copy_and_ctrl_x_copy_the_last_answer_as_markdown_and_say_how(tmp_path: Path) -> None:
    with Interface(tmp_path, script=[{"text": ANSWER}, endless("more ")], env=NO_CLIPBOARD) as tau:
        tau.start().send("how?")
        tau.wait("echo 1")
        tau.settle()
        tau.press("ctrl+x")
        tau.wait("with terminal (OSC 52)")
        tau.send("again?")  # a command works while an answer streams
        tau.wait("more")
        tau.send("/copy")
        tau.wait(lambda shown: shown.count("Copied") == 2)
        assert copied(tau) == [ANSWER.strip()] * 2


@pytest.mark.parametrize(("rows", "cols"), [(24, 80), (15, 40)])
def test_copy_code_copies_a_code_block(rows: int, cols: int, tmp_path: Path) -> None:
    with Interface(tmp_path, script=[{"text": ANSWER}], env=NO_CLIPBOARD, rows=rows, cols=cols) as tau:
        tau.start().send("how?")
        tau.wait("echo 1")
        tau.settle()
        tau.send("/copy code 2")
        tau.wait("Copied code block 2")
        tau.send("/copy code 3")
        tau.wait("blocks 1 to 2")
        tau.send("/copy code")
        tau.wait("1 python: print(1)")
        tau.press("enter")
        tau.wait("Copied code block 1")
        assert copied(tau) == ["echo 1", "print(1)"]


def test_copy_takes_the_program_of_the_platform(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "xclip").write_text(f"#!/bin/sh\ncat > {tmp_path}/clipboard\n")
    (programs / "xclip").chmod(0o700)
    env = {"DISPLAY": ":9", "WAYLAND_DISPLAY": "", "PATH": f"{programs}:/usr/bin:/bin"}
    with Interface(tmp_path, script=[{"text": "the answer"}], env=env) as tau:
        tau.start().send("hi")
        tau.wait("the answer")
        tau.settle()
        tau.send("/copy")
        tau.wait("with xclip")
        assert (tmp_path / "clipboard").read_text() == "the answer"
        assert copied(tau) == []


def test_copy_in_plain_mode_takes_the_program_or_says_that_there_is_none(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    env = {"DISPLAY": ":9", "WAYLAND_DISPLAY": "", "PATH": f"{programs}:/usr/bin:/bin"}
    with Interface(tmp_path, "--plain", script=[{"text": "the answer"}], env=env, rows=50) as tau:
        tau.wait("/help lists")
        tau.send("hi")
        tau.wait("the answer")
        tau.send("/copy")
        tau.wait("No program for the clipboard was found")
        (programs / "xclip").write_text(f"#!/bin/sh\ncat > {tmp_path}/clipboard\n")
        (programs / "xclip").chmod(0o700)
        tau.send("/copy code")
        tau.send("/copy")
        tau.wait("Copied 10 characters with xclip")
    assert (tmp_path / "clipboard").read_text() == "the answer"


def test_export_writes_html_or_the_branch_as_jsonl(tmp_path: Path) -> None:
    work = tmp_path / "work"
    with Interface(tmp_path, script=[{"text": "exported answer"}]) as tau:
        tau.start()
        (work / "mine.jsonl").write_text("not a session\n")
        tau.send("/export a.jsonl")
        tau.wait("Nothing to export yet")
        tau.send("hi")
        tau.wait("exported answer")
        tau.settle()
        tau.send('/export "my page.html"')
        tau.wait("Exported to my page.html")
        tau.send("/export a.jsonl")
        tau.wait("Exported to a.jsonl")
        tau.send("/export a.jsonl")  # an earlier export is replaced
        tau.wait(lambda shown: shown.count("Exported to a.jsonl") == 2)
        tau.send("/export mine.jsonl")
        tau.wait("not an export")
        entries = tau.session_entries()
    assert "exported answer" in (work / "my page.html").read_text()
    assert (work / "mine.jsonl").read_text() == "not a session\n"
    lines = [json.loads(line) for line in (work / "a.jsonl").read_text().splitlines()]
    assert lines == entries[: len(lines)] and lines[0]["type"] == "session"
    assert [entry["parentId"] for entry in lines[1:]] == [None, *(entry["id"] for entry in lines[1:-1])]


# The end.


def test_the_exit_summary_tells_time_turns_tokens_cost_files_and_how_to_continue(tmp_path: Path) -> None:
    writes = {
        "blocks": [
            {"tool": "write", "arguments": {"path": "a.txt", "content": "a"}, "id": "call_1"},
            {"tool": "edit", "arguments": {"path": "b.txt", "edits": []}, "id": "call_2"},
        ],
        "usage": {"input": 1200, "output": 30},
    }
    with Interface(tmp_path, script=[writes, {"text": "written"}]) as tau:
        tau.start().send("write")
        tau.wait("written")
        tau.settle()
        tau.press("ctrl+d")
        assert tau.wait_end() == 0
        tau.assert_restored()
        shown = "\n".join(tau.screen())
        id = tau.session_entries()[0]["id"]
    assert re.search(r"^\d+ s · 1 turn · [\d,]+ tokens in, [\d,]+ out", shown, re.M), shown
    assert "Changed: a.txt\n" in shown  # the edit failed
    assert f"Continue: tau --session {id}" in shown
    command = [*PI, "--session", id, "--model", "demo", "-p", "hi"]
    env = {"PI_CODING_AGENT_DIR": str(tmp_path / "agent"), "PATH": "/usr/bin:/bin"}
    assert subprocess.run(command, env=env, cwd=tmp_path / "work", capture_output=True).returncode == 0


def test_an_empty_session_and_quiet_exit_show_no_summary(tmp_path: Path) -> None:
    with Interface(tmp_path / "empty") as tau:
        tau.start().press("ctrl+d")
        assert tau.wait_end() == 0
        assert "Continue" not in "\n".join(tau.screen())
    with Interface(tmp_path / "quiet", script=[{"text": "answer"}], settings={"quietExit": True}) as tau:
        tau.start().send("hi")
        tau.wait("answer")
        tau.settle()
        tau.press("ctrl+d")
        assert tau.wait_end() == 0
        assert "Continue" not in "\n".join(tau.screen())
