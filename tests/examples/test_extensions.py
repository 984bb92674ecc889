"""The extensions in examples/ do what they say, in the real program."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.rpc_process import Agent, Json, of, text, texts

FOLDER = Path(__file__).parent.parent.parent / "examples" / "extensions"
NAMES = sorted(file.stem for file in FOLDER.glob("*.py"))


def agent(folder: Path, name: str, *answers: Json, args: tuple[str, ...] = (), **options: Any) -> Agent:
    return Agent(folder, *answers, args=["-e", str(FOLDER / f"{name}.py"), *args], **options)


def calling(tool: str, **arguments: Any) -> Json:
    return {"blocks": [{"tool": tool, "arguments": arguments}]}


def answer(program: Agent, question: Json, **fields: Any) -> None:
    program.write(json.dumps({"type": "extension_ui_response", "id": question["id"], **fields}).encode() + b"\n")


def asks(method: str) -> Callable[[Json], bool]:
    return lambda event: event["type"] == "extension_ui_request" and event["method"] == method


def shown(program: Agent, method: str) -> Json:
    """The next thing that an extension shows or asks in this way."""
    return program.until(asks(method))[-1]


def results(events: list[Json]) -> list[tuple[str, bool]]:
    return [(text(event["result"]), event["isError"]) for event in of("tool_execution_end", events)]


def test_there_are_eight() -> None:
    assert NAMES == [
        "custom_compaction",
        "custom_provider",
        "git_checkpoint",
        "notify",
        "permission_gate",
        "protected_paths",
        "status_line",
        "todo",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_each_is_short_and_harms_no_ordinary_run(tmp_path: Path, name: str) -> None:
    assert (FOLDER / f"{name}.py").read_text().count("\n") < 80
    with agent(tmp_path, name, calling("bash", command="echo fine"), {"text": "ok"}) as program:
        assert results(program.prompt("go")) == [("fine\n", False)]
        assert of("extension_error", program.events) == []


@pytest.mark.parametrize("confirmed", [True, False])
def test_permission_gate(tmp_path: Path, confirmed: bool) -> None:
    command = "rm -rf build"
    with agent(tmp_path, "permission_gate", calling("bash", command=command), {"text": "ok"}) as program:
        (program.cwd / "build").mkdir()
        program.send("prompt", message="go")
        question = shown(program, "confirm")
        assert (question["title"], question["message"]) == ("Run this command?", command)
        answer(program, question, confirmed=confirmed)
        [(said, is_error)] = results(program.settled())
        assert is_error is not confirmed
        assert (program.cwd / "build").exists() is not confirmed
        assert confirmed or said == "The user does not want this command to run."


@pytest.mark.parametrize("path", [".env", "sub/../.git/config", "keys/server.pem"])
def test_protected_paths(tmp_path: Path, path: str) -> None:
    write = calling("write", path=path, content="x")
    allowed = calling("write", path="notes.txt", content="x")
    with agent(tmp_path, "protected_paths", write, allowed, {"text": "ok"}) as program:
        (said, blocked), (_, failed) = results(program.prompt("go"))
        assert (blocked, failed) == (True, False)
        assert "is protected" in said
        assert [file.name for file in program.cwd.iterdir()] == ["notes.txt"]


def test_todo(tmp_path: Path) -> None:
    steps = [
        calling("todo", action="add", text="write"),
        calling("todo", action="add", text="test"),
        calling("todo", action="done", number=1),
        calling("todo", action="done", number=9),
        {"text": "ok"},
    ]
    with agent(tmp_path, "todo", *steps) as program:
        said = results(program.prompt("go"))
        assert said[2:] == [("[x] 1. write\n[ ] 2. test", False), ("There is no todo 9; there are 2", True)]
        file = program.get("get_state")["sessionFile"]
    with agent(tmp_path, "todo", args=("--session", file)) as program:
        assert shown(program, "setWidget")["widgetLines"] == ["[x] 1. write", "[ ] 2. test"]
        program.ask("prompt", message="/todos")
        assert shown(program, "notify")["message"] == "[x] 1. write\n[ ] 2. test"


def test_git_checkpoint(tmp_path: Path) -> None:
    write = calling("write", path="file", content="spoiled")
    with agent(tmp_path, "git_checkpoint", write, {"text": "ok"}) as program:
        git = ["git", "-c", "user.name=t", "-c", "user.email=t@t"]
        (program.cwd / "file").write_text("committed")
        for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
            subprocess.run([*git, *command], cwd=program.cwd, check=True)
        subprocess.run(["git", "config", "user.email", "t@t"], cwd=program.cwd, check=True)
        subprocess.run(["git", "config", "user.name", "t"], cwd=program.cwd, check=True)
        (program.cwd / "file").write_text("edited")
        program.prompt("spoil it")
        assert (program.cwd / "file").read_text() == "spoiled"
        program.send("prompt", message="/checkpoints")
        assert "spoil it" in shown(program, "notify")["message"]
        program.send("prompt", message="/restore")
        question = shown(program, "confirm")
        answer(program, question, confirmed=True)
        assert shown(program, "notify")["message"] == "Checkpoint 1 is restored."
        assert (program.cwd / "file").read_text() == "edited"


def test_custom_provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAM_LLM_KEY", "secret")
    with agent(tmp_path, "custom_provider", args=("--team-model", "other")) as program:
        mine = [model for model in program.get("get_available_models")["models"] if model["provider"] == "team"]
        assert [(model["id"], model["name"], model["contextWindow"]) for model in mine] == [
            ("other", "The team's model", 128_000)
        ]
        assert "unknown option" not in program.stderr


def test_custom_provider_that_is_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_COMMAND", "sed 's/^/You said: /'")
    with agent(tmp_path, "custom_provider", args=("--model", "program/default"), offline=False) as program:
        assert texts(program.prompt("one\ntwo"), "assistant") == ["You said: one\nYou said: two"]
    monkeypatch.setenv("LLM_COMMAND", "exit 3")
    with agent(tmp_path, "custom_provider", args=("--model", "program/default"), offline=False) as program:
        [end] = [one for one in of("message_end", program.prompt("go")) if one["message"]["role"] == "assistant"]
        assert end["message"]["errorMessage"] == "exit 3 ended with code 3"


def test_custom_compaction(tmp_path: Path) -> None:
    read = calling("read", path="notes.txt")
    settings = {"compaction": {"keepRecentTokens": 1}}
    with agent(tmp_path, "custom_compaction", read, {"text": "ok"}, settings=settings) as program:
        (program.cwd / "notes.txt").write_text("notes")
        program.prompt("read my notes")
        program.prompt("thank you")
        summary = program.get("compact")["summary"]
        assert "1. read my notes" in summary
        assert "- notes.txt" in summary


def test_status_line(tmp_path: Path) -> None:
    with agent(tmp_path, "status_line", calling("bash", command="true"), {"text": "ok"}) as program:
        program.prompt("go")
        said = [event["statusText"].partition(",")[0] for event in program.events if asks("setStatus")(event)]
        assert said == [
            "ready",
            "turn 1: scripted is thinking",
            "running bash",
            "turn 2: scripted is thinking",
            "done in 2 turns",
        ]


def test_notify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = tmp_path / "heard"
    monkeypatch.setenv("NOTIFY_AFTER", "0")
    monkeypatch.setenv("NOTIFY_COMMAND", f"sh -c 'echo \"$0\" > {heard}'")
    with agent(tmp_path, "notify") as program:
        program.prompt("go")
        assert heard.read_text().startswith("The agent is done after ")
        assert [event["message"] + "\n" for event in program.events if asks("notify")(event)] == [heard.read_text()]
