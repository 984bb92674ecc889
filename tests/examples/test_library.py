"""The examples of the library run, each with one command, and do what they say."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from support.rpc_process import WITHIN, surroundings

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(folder: Path, name: str, *words: str, said: str = "") -> str:
    env = surroundings(folder)
    (folder / "work" / "notes.txt").write_text("hello\n")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name), *words],
        cwd=folder / "work",
        env=env,
        input=said,
        capture_output=True,
        encoding="utf-8",
        timeout=2 * WITHIN,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_minimal_prompt(tmp_path: Path) -> None:
    assert "notes.txt" in run(tmp_path, "minimal.py")


def test_a_chat_streams(tmp_path: Path) -> None:
    said = run(tmp_path, "chat.py", said="list the files here\n\nread notes.txt\n")
    assert "[bash] {'command': 'ls'}" in said and "notes.txt" in said and "[read]" in said


def test_tools_of_an_mcp_server(tmp_path: Path) -> None:
    assert run(tmp_path, "mcp_notes.py").splitlines() == [
        "[notes: starting]",
        "[notes: ready]",
        "mcp__notes__add_note: Buy pears.",
        "mcp__notes__list_notes: Buy pears.",
        "You wanted to buy pears.",
    ]


def test_functions_are_tools(tmp_path: Path) -> None:
    assert run(tmp_path, "custom_tool.py").splitlines() == [
        "stock(fruit='plums')",
        "    There is no plums here. There are: apples, pears",
        "stock(fruit='pears')",
        "    0 pears",
        "order(fruit='pears', how_many=10)",
        '    {"ordered":"pears","count":10}',
        "There were no pears left, so I ordered ten.",
    ]


def test_functions_of_a_client_are_tools(tmp_path: Path) -> None:
    assert run(tmp_path, "host_tools.py").splitlines() == [
        "lookup_ticket(id='ABC-9')",
        "    There is no ticket ABC-9.",
        "lookup_ticket(id='ABC-1')",
        '    {"id":"ABC-1","state":"open"}',
        "ABC-1 is open; there is no ABC-9.",
    ]


@pytest.mark.parametrize(
    ("said", "came"),
    [
        ("y\n", "bash: hello"),
        ("n\n", "bash: refused: The user does not allow this call of bash."),
        ("not now\n", "bash: refused: not now"),
        ("", "bash: refused: There is no user to ask."),
    ],
)
def test_permission_is_asked_for(said: str, came: str, tmp_path: Path) -> None:
    assert run(tmp_path, "permission.py", said=said).splitlines()[-2] == came


def test_a_bridge_posts_few_messages(tmp_path: Path) -> None:
    posts = run(tmp_path, "chat_bridge.py").split("--- message ")[1:]
    assert len(posts) == 3 and "bash ls" in posts[1] and "notes.txt" in posts[2]


def test_many_agents_at_once(tmp_path: Path) -> None:
    lines = run(tmp_path, "many_agents.py", "6").splitlines()
    assert sorted(lines[:-1]) == [f"project-{number}: file-{number}.txt" for number in range(1, 7)]


def test_an_endpoint_streams_or_says_what_is_missing(tmp_path: Path) -> None:
    said = run(tmp_path, "fastapi_endpoint.py")
    if find_spec("fastapi") is None:
        assert said == "This example needs FastAPI: pip install fastapi\n"
        pytest.skip("FastAPI is not installed: the endpoint was NOT tried")
    assert "event: tool" in said and "notes.txt" in said and "event: done" in said
