"""The keys that are bound now, for a list: in groups, with those that this terminal cannot send."""

from __future__ import annotations

from tau.records.base import Value
from tau.screen.bindings import Bindings, key_label
from tau.screen.key_table import KEYS, Context

GROUPS: dict[Context, str] = {
    "editor": "editor",
    "empty": "editor",
    "question": "question",
    "list": "lists",
    "sessions": "session list",
    "models": "model list",
    "thinking": "thinking levels",
    "tree": "tree",
    "viewer": "transcript viewer",
    "search": "search in the viewer",
}
# Control characters that have a byte of their own, besides the letters. Ctrl+I, Ctrl+M and Ctrl+[ are other keys.
_CONTROL_BYTES = frozenset("abcdefghjklnopqrstuvwxyz@\\]^_-") | {"space"}
_WITHOUT_MODIFIERS = frozenset({"enter", "tab", "backspace", "escape", "space"})  # in the old encoding


class Hotkey(Value):
    keys: str
    about: str
    group: str = ""
    missing: str = ""  # why some of the keys do not work here


def hotkeys(bindings: Bindings, *, extended: bool) -> list[Hotkey]:
    """`extended`: the terminal distinguishes all keys."""
    rows = []
    for action in KEYS:
        if keys := bindings.keys(action.id):
            lost = [key_label(key, bindings.platform) for key in keys if not extended and not is_plain(key)]
            missing = f"this terminal does not send {', '.join(lost)}" if lost else ""
            labels = ", ".join(key_label(key, bindings.platform) for key in keys)
            rows.append(Hotkey(labels, action.description, GROUPS[action.context], missing))
    return rows


def is_plain(key: str) -> bool:
    """Whether every terminal sends a key such as "ctrl+shift+p" so that it differs from all others."""
    *given, name = [*key[:-1].split("+"), key[-1]] if key.endswith("+") else key.split("+")
    modifiers = {one for one in given if one}
    if "super" in modifiers:
        return False
    if name in _WITHOUT_MODIFIERS:
        return modifiers <= {"alt"} or (name == "tab" and modifiers == {"shift"}) or key == "ctrl+space"
    if len(name) > 1:
        return True  # arrows, function keys and the like carry their modifiers
    if "ctrl" in modifiers:
        return "shift" not in modifiers and name in _CONTROL_BYTES
    return True
