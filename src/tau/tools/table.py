"""The tools there are. A new one needs a line here. What it is made of is loaded when somebody looks at it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module

from tau.tools import Tool

MODULES = {
    "read": "tau.tools.read",
    "bash": "tau.tools.bash",
    "edit": "tau.tools.edit",
    "write": "tau.tools.write",
    "grep": "tau.tools.grep",
    "find": "tau.tools.find",
    "ls": "tau.tools.ls",
}
DEFAULT = ("read", "bash", "edit", "write")


class Table(Mapping[str, Tool]):
    def __init__(self, names: Sequence[str] = ()) -> None:
        self.choose(names)

    def choose(self, names: Sequence[str]) -> None:
        """Have those of `names` that there are, and no others."""
        self._names = tuple(name for name in dict.fromkeys(names) if name in MODULES)

    def __getitem__(self, name: str) -> Tool:
        if name not in self._names:
            raise KeyError(name)
        found: Tool = import_module(MODULES[name]).TOOL
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names


TOOLS = Table(list(MODULES))
