"""`tau extension new NAME` writes a file that works as it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.rpc_process import Agent


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    start = "import sys; from tau.cli.main import main; sys.exit(main('tau', sys.argv[1:]))"
    return subprocess.run([sys.executable, "-c", start, *words], cwd=folder, capture_output=True, text=True)


def test_the_starter_can_be_loaded_and_does_what_it_says(tmp_path: Path) -> None:
    done = run(tmp_path, "extension", "new", "my-first")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "Wrote my-first.py. Try it: tau -e my-first.py\n"
    greet = {"blocks": [{"tool": "my_first_greet", "arguments": {"who": "you"}}]}
    with Agent(tmp_path / "agent", greet, {"text": "ok"}, args=["-e", str(tmp_path / "my-first.py")]) as agent:
        ended = [event for event in agent.prompt("go") if event["type"] == "tool_execution_end"]
        assert [event["result"]["content"] for event in ended] == [[{"type": "text", "text": "Hello, you!"}]]
        agent.send("prompt", message="/my-first hello")
        agent.until(lambda event: event.get("message") == "hello")
        assert [event for event in agent.events if event["type"] == "extension_error"] == []


@pytest.mark.parametrize("words", [[], ["old", "x"], ["new"], ["new", "a", "b"], ["new", "../x"], ["new", "1x"]])
def test_anything_else_is_refused_and_nothing_is_written(tmp_path: Path, words: list[str]) -> None:
    done = run(tmp_path, "extension", *words)
    assert (done.returncode, done.stdout, done.stderr[:7]) == (2, "", "Error: ")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("mine")
    assert run(tmp_path, "extension", "new", "mine").returncode == 2
    assert (tmp_path / "mine.py").read_text() == "mine"
