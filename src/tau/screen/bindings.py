"""Key bindings: the table of key_table.py changed by pi's keybindings.json.

The file maps ids to a key or a list of keys; a list replaces the default, `[]` unbinds. What is wrong in it becomes a
warning, and the rest of the file still applies.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from tau.screen.input_events import Key
from tau.screen.key_table import INHERITED, KEYS, OLD_IDS, Context, Platform

FILE = "keybindings.json"
MODIFIERS = ("ctrl", "shift", "alt", "super")
NAMED = {
    name.lower(): name
    for name in (
        *("escape", "enter", "tab", "space", "backspace", "delete", "insert", "clear", "home", "end"),
        *("pageUp", "pageDown", "up", "down", "left", "right", *(f"f{number}" for number in range(1, 13))),
    )
} | {"esc": "escape", "return": "enter"}
# Keys that mean the same with shift, unless they are bound with it.
_SHIFTLESS = frozenset(NAMED.values()) - {"enter", "tab", "space"}
_BY_ID = {action.id: action for action in KEYS}
_OURS = tuple({f"{action.id.partition('.')[0]}." for action in KEYS})
_LABELS = {"pageUp": "PgUp", "pageDown": "PgDn", "escape": "Esc", "up": "↑", "down": "↓", "left": "←", "right": "→"}


def normalized(key: str) -> str | None:
    """The one spelling of a key of keybindings.json, such as "ctrl+shift+p"; None if it is not a key."""
    *modifiers, name = _parts(key.strip().lower())
    if len(set(modifiers)) < len(modifiers) or not set(modifiers) <= set(MODIFIERS):
        return None
    if name in NAMED:
        name = NAMED[name]
    elif len(name) != 1 or name.isspace() or not name.isprintable():
        return None
    return "+".join([*(one for one in MODIFIERS if one in modifiers), name])


def pressed(key: Key) -> str:
    """The spelling of a key that was pressed: a capital is the letter with shift, a shifted symbol is the symbol."""
    *modifiers, name = _parts(key.id)
    if len(name) == 1 and name.isupper() and len(name.lower()) == 1:
        modifiers.append("shift")
        name = name.lower()
    elif len(name) == 1 and modifiers == ["shift"] and not name.isalnum():
        modifiers = []
    elif name == " ":
        name = "space"
    return "+".join([*(one for one in MODIFIERS if one in modifiers), NAMED.get(name.lower(), name)])


def _parts(key: str) -> list[str]:
    if key.endswith("+"):  # the key itself
        return [*[part for part in key[:-1].split("+") if part], "+"]
    return key.split("+")


class Bindings:
    def __init__(self, platform: Platform = "linux", changed: Mapping[str, tuple[str, ...]] | None = None) -> None:
        """`changed` has the keys of the actions that do not have their default keys."""
        self.platform = platform
        self._changed = dict(changed or {})
        self._keys = {action.id: self._changed.get(action.id, action.default_keys(platform)) for action in KEYS}
        self._actions: dict[str, list[str]] = {}
        # What the user bound comes before the defaults of the same key.
        for action in sorted(self._keys, key=lambda action: action not in self._changed):
            for key in self._keys[action]:
                self._actions.setdefault(key, []).append(action)

    def actions(self, key: Key, context: Context | None = None) -> Sequence[str]:
        """The ids bound to a key: those of the file first, then the others, in the order of the table.

        With a context, only those that apply in it.
        """
        found = self._named(pressed(key))
        if context is None:
            return found
        contexts = _contexts(context)
        return [action for action in found if _BY_ID[action].context in contexts]

    def _named(self, name: str) -> Sequence[str]:
        found = self._actions.get(name)
        if found is None and name in ("ctrl+_", "ctrl+shift+_", "ctrl+shift+-"):
            found = self._actions.get("ctrl+-")  # most terminals send the same byte for these
        if found is None and "shift+" in name and name.rpartition("+")[2] in _SHIFTLESS:
            found = self._actions.get(name.replace("shift+", ""))
        return found or ()

    def keys(self, action: str) -> tuple[str, ...]:
        """The keys bound to an id."""
        return self._keys.get(action, ())

    def label(self, action: str) -> str:
        """The first key of an action as people write it, such as "Ctrl+P"; "" if it has none."""
        keys = self.keys(action)
        return key_label(keys[0], self.platform) if keys else ""

    @classmethod
    def from_file(
        cls, content: Mapping[str, object], platform: Platform = "linux", lines: Mapping[str, int] | None = None
    ) -> tuple[Bindings, list[str]]:
        """Bindings of the parsed file, and warnings. `lines` has the line of each id in the file."""
        reader = _Reader(lines or {})
        changed = reader.read(content)
        bindings = cls(platform, changed)
        reader.find_clashes(bindings)
        return bindings, reader.warnings

    @classmethod
    def parse(cls, text: str, platform: Platform = "linux") -> tuple[Bindings, list[str]]:
        """Bindings of the text of the file. A file that is not a JSON object changes nothing and is a warning."""
        try:
            content = json.loads(text)
        except ValueError as error:
            place = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
            return cls(platform), [f"{FILE}{place}: not valid JSON ({error}). The default keys are used."]
        if not isinstance(content, dict):
            return cls(platform), [f"{FILE}: must contain an object of ids and keys. The default keys are used."]
        return cls.from_file(content, platform, _lines(text))


def key_label(key: str, platform: Platform = "linux") -> str:
    names = {"alt": "Option", "super": "Cmd"} if platform == "darwin" else {}
    return "+".join(names.get(part, _LABELS.get(part, part[:1].upper() + part[1:])) for part in _parts(key))


def _lines(text: str) -> dict[str, int]:
    """The line of each key of a JSON object; of the last one if a key is there twice, since that one counts."""
    found = re.finditer(r'"((?:[^"\\]|\\.)*)(?:"(\s*:)?|\\?$)', text)
    return {match[1]: text.count("\n", 0, match.start()) + 1 for match in found if match[2]}


class _Reader:
    """Reads the content of the file; collects warnings with their line."""

    def __init__(self, lines: Mapping[str, int]) -> None:
        self.warnings: list[str] = []
        self._lines = dict(lines)

    def warn(self, name: str, sentence: str) -> None:
        line = self._lines.get(name)
        self.warnings.append(f"{FILE}:{line}: {sentence}" if line else f"{FILE}: {sentence}")

    def read(self, content: Mapping[str, object]) -> dict[str, tuple[str, ...]]:
        changed: dict[str, tuple[str, ...]] = {}
        for name, value in content.items():
            action = OLD_IDS.get(name, name)
            if action not in _BY_ID:
                if "." not in name or name.startswith(_OURS):  # others are those of extensions
                    self.warn(name, f"there is no action {name!r}")
                continue
            if action != name:
                if action in content:
                    continue  # the new id counts
                self._lines[action] = self._lines.get(name, 0)
            keys = self._keys(name, value)
            if keys is not None:
                changed[action] = keys
        return changed

    def _keys(self, name: str, value: object) -> tuple[str, ...] | None:
        given = [value] if isinstance(value, str) else value
        if not isinstance(given, list) or not all(isinstance(key, str) for key in given):
            self.warn(name, f"{name!r} must be a key or a list of keys")
            return None
        keys: dict[str, None] = {}
        for key in given:
            if known := normalized(key):
                keys[known] = None
            elif len(key.split()) > 1:
                self.warn(name, f"{key!r} is a sequence of keys, which is not supported")
            else:
                self.warn(name, f"{key!r} is not a key")
        # Only mistakes: the default is more useful than an action without a key.
        return tuple(keys) if keys or not given else None

    def find_clashes(self, bindings: Bindings) -> None:
        for first, second, key in _clashes(bindings):
            self.warn(first, f"{key} is bound to {first} and to {second}; {first} comes first")


def _clashes(bindings: Bindings) -> Iterator[tuple[str, str, str]]:
    """Pairs of actions that have a key in common because of the file, and the first takes it from the second on its
    screen. A key of all lists may have another meaning in one of them.
    """
    for key, names in bindings._actions.items():
        for first, second in combinations(names, 2):  # those of the file are before the others
            if first not in bindings._changed or _by_default(key, first, second, bindings.platform):
                continue
            if _BY_ID[second].context in _contexts(_BY_ID[first].context):
                yield first, second, key


def _contexts(context: Context) -> tuple[Context, ...]:
    return (context, *INHERITED.get(context, ()))


def _by_default(key: str, first: str, second: str, platform: Platform) -> bool:
    """Such as Ctrl+D, which deletes a character, and exits if there is none."""
    return all(key in _BY_ID[action].default_keys(platform) for action in (first, second))
