"""The registry of built-in tools. A new tool needs a line in MODULES; its module is imported on first use."""

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
    """A selection of built-in tools, by name, and of tools that are passed in."""

    def __init__(self, names: Sequence[str | Tool] = ()) -> None:
        self.choose(names)

    def choose(self, names: Sequence[str | Tool]) -> None:
        """Select the built-in tools among `names` and the tools that are passed in. Unknown names are ignored."""
        self._selected: dict[str, Tool | None] = {}
        for name in names:
            if not isinstance(name, str):
                self._selected[name.name] = name
            elif name in MODULES:
                self._selected.setdefault(name, None)  # imported on first use

    def __getitem__(self, name: str) -> Tool:
        found = self._selected[name]
        if found is None:
            loaded: Tool = import_module(MODULES[name]).TOOL
            return loaded
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._selected)

    def __len__(self) -> int:
        return len(self._selected)

    def __contains__(self, name: object) -> bool:
        return name in self._selected


TOOLS = Table(list(MODULES))
