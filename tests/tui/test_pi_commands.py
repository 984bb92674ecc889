"""Every slash command of pi 0.87.1 and 0.73.1 exists."""

from __future__ import annotations

import pytest

from tau.tui.commands import find_command

PI_0_87 = (
    *("settings", "model", "tree", "thinking", "scoped-models", "export", "import", "share", "bug", "copy", "name"),
    *("session", "changelog", "hotkeys", "fork", "clone", "trust", "login", "logout", "new", "compact", "resume"),
    *("reload", "quit", "llama", "debug"),
)
OWN = ("help", "exit", "clear", "transcript", "permissions", "sandbox", "terminal", "retry", "redraw")


@pytest.mark.parametrize("name", [*PI_0_87, *OWN])
def test_a_command_of_pi_exists(name: str) -> None:
    command = find_command(name)
    assert command is not None and command.about
