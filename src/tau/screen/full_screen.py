"""Programs that draw on the whole terminal: they cannot run inside the interface."""

from __future__ import annotations

import re
import shlex

# The options with which a program works without a terminal.
_PROGRAMS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("vi", "vim", "view", "vimdiff", "gvim"), ("-es", "-Es", "-s", "--version", "--help")),
    "nvim": ("--headless", "-es", "-Es", "--version", "--help"),
    "emacs": ("--batch", "-batch", "--version", "--help"),
    **dict.fromkeys(("top", "htop", "btop"), ("-b", "-v", "-h", "--version", "--help")),
    **dict.fromkeys(("nano", "pico", "micro", "hx", "mc", "tig", "lazygit", "ranger"), ("--version", "--help")),
    "watch": ("--version", "--help", "-v", "-h"),
}
_BEFORE = frozenset(("sudo", "exec", "command", "env", "time", "nice"))
_ASSIGNMENT = re.compile(r"\w+=")


def full_screen_program(command: str) -> str | None:
    """The name of the program that a shell command starts, if it needs the whole terminal."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    while words and (words[0] in _BEFORE or _ASSIGNMENT.match(words[0])):
        words.pop(0)
    if not words:
        return None
    name = words[0].rpartition("/")[2]
    options = _PROGRAMS.get(name)
    return None if options is None or any(word in options for word in words) else name
