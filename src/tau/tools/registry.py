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
    def __init__(self, names: Sequence[str | Tool] = ()) -> None:
        self.choose(names)

    def choose(self, names: Sequence[str | Tool]) -> None:
        """Have those of `names` that there are, and tools that are given as such; no others."""
        self._given: dict[str, Tool | None] = {}
        for name in names:
            if not isinstance(name, str):
                self._given[name.name] = name
            elif name in MODULES:
                self._given.setdefault(name, None)

    def __getitem__(self, name: str) -> Tool:
        found = self._given[name]
        if found is None:
            loaded: Tool = import_module(MODULES[name]).TOOL
            return loaded
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)

    def __contains__(self, name: object) -> bool:
        return name in self._given


TOOLS = Table(list(MODULES))
