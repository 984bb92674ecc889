"""Files that a user of pi 0.87.1 has: themes, keybindings.json and settings.json are taken unchanged."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from support.interface import Interface
from tau.screen.bindings import Bindings
from tau.screen.input_events import Key
from tau.screen.themes import OPTIONAL_ROLES, ROLES, parse_theme
from tau.store.settings import SettingsFile

FILES = Path(__file__).parent / "pi_files"
EMBER_BORDER = b"38;2;192;96;20"  # thinkingMedium of the theme, the colour of the editor's rule
PAPER_ACCENT = b"38;2;29;78;137"
TRUE_COLOR = {"COLORTERM": "truecolor"}


def give(folder: Path, *names: str) -> Path:
    """Copy files of pi into the agent folder."""
    agent = folder / "agent"
    agent.mkdir(exist_ok=True)
    for name in names:
        (agent / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(FILES / name, agent / name)
    return agent


@pytest.mark.parametrize("name", ["ember", "paper"])
def test_a_theme_of_pi_is_taken_without_a_warning(name: str) -> None:
    theme, warnings = parse_theme(json.loads((FILES / "themes" / f"{name}.json").read_text()))
    assert warnings == []
    assert theme is not None and theme.name == name and theme.colors.keys() == ROLES


def test_roles_that_a_theme_leaves_out_are_like_the_roles_that_pi_names() -> None:
    theme, _ = parse_theme(json.loads((FILES / "themes" / "paper.json").read_text()))
    assert theme is not None
    assert {role: theme.colors[role] for role in OPTIONAL_ROLES} == {
        role: theme.colors[like] for role, like in OPTIONAL_ROLES.items()
    }


def test_the_settings_of_pi_are_taken_without_a_warning() -> None:
    file = SettingsFile(FILES / "settings.json")
    settings = file.read()
    assert file.problems == []
    assert (settings.theme, settings.hide_thinking_block, settings.double_escape_action) == (
        "paper/ember",
        True,
        "fork",
    )
    assert (settings.terminal.true_color, settings.autocomplete_max_visible) == ("auto", 9)
    assert (settings.retry.max_retries, settings.retry.max_delay_ms) == (5, 45000)


def test_the_keybindings_of_pi_are_taken_without_a_warning() -> None:
    bindings, warnings = Bindings.parse((FILES / "keybindings.json").read_text())
    assert warnings == []
    assert "app.session.new" in bindings.actions(Key("ctrl+shift+n"))
    assert "app.session.fork" in bindings.actions(Key("alt+shift+f"))
    assert bindings.keys("tui.altScreen.pageUp") == ()


def test_the_whole_program_starts_with_all_of_them(tmp_path: Path) -> None:
    give(tmp_path, "keybindings.json", "themes/ember.json", "themes/paper.json")
    settings = json.loads((FILES / "settings.json").read_text())
    settings["defaultThinkingLevel"] = "medium"
    del settings["packages"]  # they are not installed, which is a warning
    keys = {"ANTHROPIC_API_KEY": "sk-none", "OPENAI_API_KEY": "sk-none"}
    with Interface(tmp_path, settings=settings, env={**TRUE_COLOR, **keys}) as tau:
        tau.start()
        tau.type("\x1bOQ")  # F2
        tau.wait("── Model")
        shown = "\n".join(tau.screen())
        assert "Warning" not in shown and ".json" not in shown
        assert EMBER_BORDER in tau.raw()  # the dark one of the two: the terminal did not say that it is light


def test_use_theme_and_theme_choose_a_theme_for_one_run(tmp_path: Path) -> None:
    theme = str(FILES / "themes" / "ember.json")
    with Interface(tmp_path, "--theme", theme, "--use-theme", "ember", env=TRUE_COLOR) as tau:
        tau.start()
        assert EMBER_BORDER in tau.raw()
        tau.send("/settings theme")
        tau.wait("theme: ember (command line)")
    assert not (tmp_path / "agent" / "settings.json").exists()


@pytest.mark.parametrize("name", ["dark", "light"])
def test_a_theme_file_with_the_name_of_a_built_in_theme_is_used(tmp_path: Path, name: str) -> None:
    text = (FILES / "themes" / "ember.json").read_text().replace('"name": "ember"', f'"name": "{name}"')
    (folder := tmp_path / "agent" / "themes").mkdir(parents=True)
    (folder / f"{name}.json").write_text(text)
    with Interface(tmp_path, settings={"theme": name, "defaultThinkingLevel": "medium"}, env=TRUE_COLOR) as tau:
        tau.start()
        assert EMBER_BORDER in tau.raw()


def test_no_themes_loads_only_those_of_the_command_line(tmp_path: Path) -> None:
    give(tmp_path, "themes/ember.json")
    paper = str(FILES / "themes" / "paper.json")
    with Interface(tmp_path, "--no-themes", "--theme", paper, "--use-theme", "ember") as tau:
        tau.start()
        tau.wait("There is no theme 'ember'")
        tau.wait("dark, light, ansi, paper")


def test_a_theme_file_is_used_again_when_it_changes(tmp_path: Path) -> None:
    agent = give(tmp_path, "themes/ember.json")
    with Interface(tmp_path, "--use-theme", "ember", env=TRUE_COLOR) as tau:
        tau.start()
        text = (FILES / "themes" / "ember.json").read_text().replace("#c06014", "#0102f3")
        (agent / "themes" / "new").write_text(text)
        os.replace(agent / "themes" / "new", agent / "themes" / "ember.json")
        tau.wait(lambda _: b"38;2;1;2;243" in tau.raw())


def test_reload_reads_keys_and_themes_again(tmp_path: Path) -> None:
    agent = give(tmp_path)
    with Interface(tmp_path, env=TRUE_COLOR) as tau:
        tau.start()
        give(tmp_path, "themes/ember.json")
        (agent / "settings.json").write_text('{"theme": "ember", "defaultThinkingLevel": "medium"}')
        (agent / "keybindings.json").write_text('{"app.model.select": "f7", "app.nothing": "f8"}')
        (agent / "prompts").mkdir()
        (agent / "prompts" / "zebra.md").write_text("Count the zebras.")
        tau.send("/reload")
        tau.wait("there is no action 'app.nothing'")
        tau.wait("Reloaded settings, keys, themes")
        assert EMBER_BORDER in tau.raw()
        tau.type("\x1b[18~")  # F7
        tau.wait("scripted/scripted, thinking medium")
        tau.type("/zeb")
        tau.wait("→ zebra")


def test_a_theme_for_light_and_dark_follows_the_terminal(tmp_path: Path) -> None:
    give(tmp_path, "themes/ember.json", "themes/paper.json")
    with Interface(tmp_path, "--use-theme", "paper/ember", env=TRUE_COLOR) as tau:
        tau.start()
        tau.wait(lambda _: EMBER_BORDER in tau.raw())
        tau.type("\x1b[?997;2n")  # the terminal says: light, from now on
        tau.send("/settings")
        tau.wait(lambda _: PAPER_ACCENT in tau.raw())
