"""/settings in the whole program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.interface import Interface
from support.rpc_process import endless


def shows(tau: Interface, row: str) -> None:
    """Wait for a row, whatever the width of its columns."""
    tau.wait(lambda shown: row in [" ".join(line.split()) for line in shown.split("\n")])


def saved(folder: Path) -> Any:
    return json.loads((folder / "agent" / "settings.json").read_text())


def test_settings_lists_every_setting_and_enter_changes_the_chosen_one(tmp_path: Path) -> None:
    with Interface(tmp_path) as tau:
        tau.start().send("/settings")
        tau.wait("Settings · yours")
        tau.type("hideThinking")
        shows(tau, "→ hideThinkingBlock off")
        tau.wait("instead of the model's thinking")
        tau.press("enter")
        shows(tau, "→ hideThinkingBlock on · yours")
        tau.press("enter")
        shows(tau, "→ hideThinkingBlock off · yours")
        tau.press("escape")
        tau.wait(lambda shown: "Settings" not in shown)
    assert saved(tmp_path)["hideThinkingBlock"] is False


def test_a_number_is_typed_and_a_wrong_one_is_refused(tmp_path: Path) -> None:
    with Interface(tmp_path) as tau:
        tau.start().send("/settings")
        tau.wait("Settings · yours")
        tau.type("retry.maxRetries")
        shows(tau, "→ retry.maxRetries 3")
        tau.press("enter")
        tau.wait("Enter confirms")
        tau.press("backspace")
        tau.type("x")
        tau.press("enter")
        tau.wait("must be a whole number")
        tau.press("enter")
        tau.wait("Enter confirms")
        tau.press("backspace")
        tau.type("9")
        tau.press("enter")
        shows(tau, "→ retry.maxRetries 9 · yours")
    assert saved(tmp_path)["retry"]["maxRetries"] == 9


@pytest.mark.parametrize(("rows", "cols"), [(24, 80), (15, 40)])
def test_settings_can_be_changed_while_an_answer_streams(rows: int, cols: int, tmp_path: Path) -> None:
    with Interface(tmp_path, script=[endless("so far ")], rows=rows, cols=cols) as tau:
        tau.start().send("go")
        tau.wait("so far")
        tau.send("/settings")
        tau.wait("Settings · yours")
        tau.type("quietExit")
        shows(tau, "→ quietExit off")
        tau.press("enter")
        shows(tau, "→ quietExit on · yours")
    assert saved(tmp_path)["quietExit"] is True


def test_settings_with_a_name_and_a_value_sets_it(tmp_path: Path) -> None:
    with Interface(tmp_path) as tau:
        tau.start().send("/settings doubleEscapeAction fork")
        tau.wait("doubleEscapeAction: fork (yours)")
        tau.send("/settings doubleEscapeAction")
        tau.wait("What two presses of Escape do")
        tau.send("/settings doubleEscapeAction jump")
        tau.wait("one of tree, fork, none")
    assert saved(tmp_path)["doubleEscapeAction"] == "fork"


def test_a_project_cannot_be_written_untrusted(tmp_path: Path) -> None:
    project = tmp_path / "work" / ".pi" / "settings.json"
    project.parent.mkdir(parents=True)
    project.write_text('{"quietExit": true}')
    with Interface(tmp_path, "--no-approve") as tau:
        tau.start().send("/settings")
        tau.wait("Settings · yours")
        tau.type("quietExit")
        shows(tau, "→ quietExit off")
        tau.press("tab")
        tau.wait("not trusted")
        assert any("Settings · yours" in row for row in tau.screen())
    assert project.read_text() == '{"quietExit": true}'


def test_a_trusted_project_is_written_and_its_value_wins(tmp_path: Path) -> None:
    project = tmp_path / "work" / ".pi" / "settings.json"
    project.parent.mkdir(parents=True)
    project.write_text('{"quietExit": true}')
    with Interface(tmp_path, "--approve") as tau:
        tau.start().send("/settings quietExit off")
        tau.wait("quietExit: on (project)")
        tau.wait("which wins")
        tau.send("/settings")
        tau.wait("Settings · yours")
        tau.type("quietExit")
        shows(tau, "→ quietExit on · project")
        tau.press("tab")
        tau.wait("this project's")
        tau.press("enter")
        shows(tau, "→ quietExit off · project")
    assert json.loads(project.read_text()) == {"quietExit": False}


def test_a_theme_is_shown_while_it_is_chosen_and_kept_with_enter(tmp_path: Path) -> None:
    with Interface(tmp_path, env={"COLORTERM": "truecolor"}) as tau:
        tau.start().send("/settings")
        tau.wait("Settings · yours")
        tau.type("theme")
        tau.wait("→ theme ")
        tau.press("enter")
        shows(tau, "→ dark")
        tau.press("down")
        shows(tau, "→ light")
        tau.wait(lambda _: b"38;2;31;111;139" in tau.raw())  # the accent of the light theme
        tau.press("enter")
        shows(tau, "→ theme light · yours")
    assert saved(tmp_path)["theme"] == "light"


def test_plain_mode_has_the_commands_in_lines(tmp_path: Path) -> None:
    with Interface(tmp_path, "--plain", rows=50) as tau:
        tau.wait("/help lists")
        for line, shown in [
            ("/settings quietExit on", "quietExit: on (yours)"),
            ("/settings", "/settings NAME VALUE changes it"),
            ("/login openai", "`tau login PROVIDER`"),
            ("/logout", "auth.json has no entries"),
            ("/hotkeys", "stop the answer; discard the line"),
            ("/terminal", "Copying:"),
            ("/trust", "no files that need trust"),
            ("/reload", "Reloaded settings, keys, themes"),
        ]:
            tau.send(line)
            tau.wait(shown)
    assert saved(tmp_path)["quietExit"] is True
