"""Files of the user that are broken, loose or cannot be written, with the whole program: rows G of the catalogue."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.cli_process import PI, run
from support.rpc_process import Agent, Json, command_line, scripted, surroundings

BROKEN = {
    "truncated": b'{"retry": {"enabled": fal',
    "filled with NULs": b"\0" * 4096,
    "an array": b"[1, 2]",
    "a number": b"5",
    "no UTF-8": b'{"a": "\xff\xfe"}',
    "wrong types": b'{"steeringMode": "bogus", "retry": 5, "enabledModels": {}, "compaction": {"enabled": "yes"}}',
}


def put(tmp_path: Path, name: str, content: bytes) -> Path:
    (tmp_path / "agent").mkdir(parents=True, exist_ok=True)
    file = tmp_path / "agent" / name
    file.write_bytes(content)
    file.chmod(0o600)
    return file


@pytest.mark.promise("G01")
@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_settings_file_means_the_defaults_and_is_named_and_left_alone(tmp_path: Path, kind: str) -> None:
    file = put(tmp_path, "settings.json", BROKEN[kind])
    with Agent(tmp_path) as agent:
        state = agent.get("get_state")
        assert (state["steeringMode"], state["autoCompactionEnabled"]) == ("one-at-a-time", True)
        agent.get("set_steering_mode", mode="all")
        agent.get("set_auto_compaction", enabled=False)
        agent.prompt("hi")
    assert str(file) in agent.stderr
    if kind == "wrong types":
        chosen = {"steeringMode": "all", "compaction": {"enabled": False}}
        assert json.loads(file.read_bytes()) == {**json.loads(BROKEN[kind]), **chosen}
    else:
        assert file.read_bytes() == BROKEN[kind]
    assert [path.name for path in file.parent.iterdir() if path.name.startswith(("settings", "."))] == ["settings.json"]


@pytest.mark.promise("G01")
def test_an_empty_settings_file_says_nothing(tmp_path: Path) -> None:
    put(tmp_path, "settings.json", b"")
    done = run(tmp_path, "-p", "hi")
    assert done == (0, "ok\n", "")


@pytest.mark.promise("G02", "G03")
@pytest.mark.parametrize("kind", [kind for kind in BROKEN if kind != "wrong types"])
@pytest.mark.parametrize("name", ["models.json", "auth.json", "trust.json"])
def test_another_broken_file_is_named_and_left_alone_and_the_rest_works(tmp_path: Path, name: str, kind: str) -> None:
    file = put(tmp_path, name, BROKEN[kind])
    (tmp_path / "work" / ".pi").mkdir(parents=True)
    (tmp_path / "work" / ".pi" / "settings.json").write_text("{}")
    done = run(tmp_path, "-p", "hi")
    assert (done.code, done.out) == (0, "ok\n")
    assert str(file) in done.err
    assert file.read_bytes() == BROKEN[kind]


@pytest.mark.promise("G11")
def test_an_export_is_not_written_over_a_file_that_is_none(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        agent.prompt("hi")
        (agent.cwd / "notes.html").write_text("<!doctype html><p>my notes")
        (agent.cwd / "link.html").symlink_to("notes.html")
        for name in ("notes.html", "link.html", "../agent/settings.json", str(agent.get("get_state")["sessionFile"])):
            if not (agent.cwd / name).exists():
                (agent.cwd / name).write_text("{}")
            before = (agent.cwd / name).read_bytes()
            response = agent.ask("export_html", outputPath=name)
            assert not response["success"] and "is not an export" in response["error"]
            assert (agent.cwd / name).read_bytes() == before
        agent.get("export_html", outputPath="mine.html")
        agent.get("export_html", outputPath="mine.html")  # its own it may


def read_only(folder: Path) -> list[str]:
    """What to put before a command so that it cannot write there: for root, nothing less than a mount will do."""
    if os.geteuid() != 0:
        folder.chmod(0o500)
        return []
    bwrap = shutil.which("bwrap")
    if bwrap is None or subprocess.run([bwrap, "--dev-bind", "/", "/", "true"], capture_output=True).returncode:
        pytest.skip("root may write everywhere, and there is no bubblewrap to keep it from that")
    return [bwrap, "--dev-bind", "/", "/", "--ro-bind", str(folder), str(folder)]


@pytest.mark.skipif(sys.platform != "linux", reason="needs bubblewrap where it runs as root")
@pytest.mark.promise("G13")
def test_an_agents_folder_that_cannot_be_written_to_is_said_in_a_line_for_each_thing_that_needs_it(
    tmp_path: Path,
) -> None:
    env, model = surroundings(tmp_path), scripted(tmp_path)[len(command_line()) :]
    auth = put(tmp_path, "auth.json", b'{"openai": {"type": "api_key", "key": "k"}}')
    auth.chmod(0o644)
    before = read_only(tmp_path / "agent")

    def told(*argv: str, said: str = "") -> tuple[int, str, list[str]]:
        done = subprocess.run(
            [*before, *argv], cwd=tmp_path / "work", env=env, input=said, capture_output=True, text=True, timeout=60
        )
        warnings = [line for line in done.stderr.splitlines() if not line.startswith("Warning: ")]
        assert f"Warning: {auth}: other users can read it, and this cannot be changed" in done.stderr or not before
        return done.returncode, done.stdout, warnings

    code, out, (line,) = told(*PI, *model, "-p", "hi")
    assert (code, out) == (1, "") and "cannot be written" in line and str(tmp_path / "agent") in line
    assert told(*PI, *model, "--no-session", "-p", "hi") == (0, "ok\n", [])
    commands: list[Json] = [
        {"type": "prompt", "message": "hi", "id": "p"},
        {"type": "set_steering_mode", "mode": "all", "id": "m"},
        {"type": "get_state", "id": "s"},
    ]
    code, out, lines = told(*command_line(), *model, said="".join(f"{json.dumps(command)}\n" for command in commands))
    answers = {record["id"]: record for record in map(json.loads, out.splitlines()) if record["type"] == "response"}
    assert (code, answers["p"]["success"], answers["s"]["success"]) == (0, False, True)
    assert "cannot be written" in answers["p"]["error"]
    assert len(lines) == 1 and "settings not saved" in lines[0]
