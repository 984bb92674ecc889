"""/terminal, /debug, /trust and /changelog in the whole program."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from support.interface import Interface
from support.rpc_process import endless


@pytest.mark.parametrize(("rows", "cols"), [(24, 80), (15, 40)])
def test_terminal_shows_what_was_asked_and_answered(rows: int, cols: int, tmp_path: Path) -> None:
    with Interface(tmp_path, script=[endless("so far ")], rows=rows, cols=cols) as tau:
        tau.start().send("go")
        tau.wait("so far")
        tau.send("/terminal")
        tau.wait("the kitty protocol")
        tau.wait("Copying:")


def test_terminal_says_what_a_silent_terminal_lacks(tmp_path: Path) -> None:
    with Interface(tmp_path, answers="silent") as tau:
        tau.start().send("/terminal")
        tau.wait("! Keys: basic")
        tau.wait("did not answer")


def test_debug_writes_the_screen_to_a_private_file(tmp_path: Path) -> None:
    with Interface(tmp_path, script=[{"text": "On the screen"}]) as tau:
        tau.start().send("hi")
        tau.wait("On the screen")
        tau.settle()
        tau.send("/debug")
        tau.wait("look at it before you send it")
    file = tmp_path / "agent" / "tau-debug.log"
    assert "On the screen" in file.read_text() and stat.S_IMODE(file.stat().st_mode) == 0o600


def test_changelog_shows_what_is_new(tmp_path: Path) -> None:
    with Interface(tmp_path) as tau:
        tau.start().send("/changelog")
        tau.wait(lambda shown: "interactive interface" in "\n".join([*tau.history(), shown]))


def project(folder: Path) -> Path:
    file = folder / "work" / ".pi" / "settings.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"quietExit": true}')
    return file


def test_trust_lists_the_files_and_a_yes_takes_effect_at_once(tmp_path: Path) -> None:
    project(tmp_path)
    (tmp_path / "work" / ".mcp.json").write_text('{"mcpServers": {"notes": {"command": "run-notes"}}}')
    with Interface(tmp_path) as tau:
        tau.start().send("/trust")
        tau.wait(".pi/settings.json")
        tau.wait("notes: run-notes  (.mcp.json)")
        tau.wait("→ Do not trust this project")
        tau.press("up")
        tau.wait("→ Trust these files")
        tau.press("enter")
        tau.wait("Saved: trusted")
        tau.send("/settings quietExit")
        tau.wait("quietExit: on (project)")


def test_trust_of_a_project_without_files_says_so(tmp_path: Path) -> None:
    with Interface(tmp_path) as tau:
        tau.start().send("/trust")
        tau.wait("no files that need trust")


def test_a_no_is_saved_and_the_project_stays_untrusted(tmp_path: Path) -> None:
    project(tmp_path)
    with Interface(tmp_path) as tau:
        tau.start().send("/trust")
        tau.wait("→ Do not trust this project")
        tau.press("enter")
        tau.wait("Saved: not trusted")
    assert "false" in (tmp_path / "agent" / "trust.json").read_text()
