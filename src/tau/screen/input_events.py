"""What a terminal sends: keys, pastes, changes of focus, and answers to questions that were sent to it."""

from __future__ import annotations

from typing import NamedTuple

from tau.records.base import Value


class Key(Value):
    """A key press. `id` is in the syntax of keybindings.json: "ctrl+shift+p", "alt+enter", "pageUp", "a", "A", "€".

    Modifiers are in the order ctrl, shift, alt, super. `text` is what the key inserts; empty for keys that insert
    nothing.
    """

    id: str
    text: str = ""


class Paste(NamedTuple):
    """Bracketed paste, whole: line ends are LF, control characters are removed, tabs are kept."""

    text: str


class Focus(NamedTuple):
    gained: bool


class Reply(NamedTuple):
    """An answer of the terminal, such as ("kittyFlags", "1"), ("background", "rgb:0000/0000/0000")."""

    name: str
    value: str


InputEvent = Key | Paste | Focus | Reply
