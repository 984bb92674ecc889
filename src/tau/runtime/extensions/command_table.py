"""The commands of extensions by the name with which they are called.

Several extensions may register the same name. All of their commands stay: they are called as `name:1`, `name:2` and so
on, in load order. The name alone means the first of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from tau.records.base import UNSET, UnsetType, Value, replace


class Command(Value):
    """A command `/name args` of an extension."""

    name: str
    path: str
    run: Callable[[str], Awaitable[Any]]
    description: str | UnsetType = UNSET
    registered: str = ""  # the name that the extension gave it


class CommandTable(dict[str, Command]):
    def __init__(self) -> None:
        super().__init__()
        self._registered: list[tuple[int, Command]] = []  # in load order

    def add(self, command: Command, order: int) -> Callable[[], None]:
        """Add a command of the extension at `order` in the load order. Returns what removes it again."""
        registered = order, command
        self._registered.append(registered)
        self._registered.sort(key=lambda each: each[0])
        self._name_again()

        def remove() -> None:
            self._registered = [each for each in self._registered if each is not registered]
            self._name_again()

        return remove

    def find(self, name: str) -> Command | None:
        """Return the command that is called with this name."""
        return self.get(name) or self.get(f"{name}:1")

    def _name_again(self) -> None:
        counts = Counter(command.name for _, command in self._registered)
        self.clear()
        used: Counter[str] = Counter()
        for _, command in self._registered:
            used[command.name] += 1
            number, called = used[command.name], command.name
            if counts[called] > 1:
                called = f"{command.name}:{number}"
            while called in self:
                number += 1
                called = f"{command.name}:{number}"
            self[called] = replace(command, name=called, registered=command.name)
