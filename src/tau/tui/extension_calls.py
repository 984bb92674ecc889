"""Calls of the terminal interface to functions of extensions: shortcuts, completions and renderers.

An extension that is slow, fails or hangs costs its own part only: after the time limit tau's own form is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from tau.errors import ExtensionFailure
from tau.records.base import Value
from tau.runtime.extensions.registry import ExtensionRegistry, TerminalFunction
from tau.screen.bindings import Bindings, normalized, pressed
from tau.screen.input_events import Key
from tau.screen.lines import Line
from tau.screen.role_markup import styled_lines

RENDER_TIMEOUT_S = 0.1
COMPLETION_TIMEOUT_S = 0.5
MAX_RENDERED_LINES = 500
MAX_ITEMS = 200
MAX_FAILURES = 3  # in a row; then the function is not called again until its extension is loaded again

Part = Literal["call", "result", "message"]


class Item(Value):
    """A completion: `value` replaces `prefix`, the text before the cursor."""

    value: str
    label: str
    description: str = ""
    prefix: str = ""


class ExtensionCalls:
    def __init__(self, extensions: ExtensionRegistry) -> None:
        self._extensions = extensions
        self._failures: dict[TerminalFunction, int] = {}

    # Shortcuts.

    @property
    def shortcuts(self) -> Mapping[str, TerminalFunction]:
        """By key, as the extension wrote it, with a description."""
        return self._extensions.terminal.shortcuts

    def shortcut_warnings(self, bindings: Bindings) -> list[str]:
        """Shortcuts that do not work: what is not a key, and keys that tau uses itself."""
        warnings: list[str] = []
        for key, function in self.shortcuts.items():
            name = normalized(key)
            if name is None:
                warnings.append(f"{function.path}: {key!r} is not a key.")
            elif actions := bindings.actions(Key(name)):
                warnings.append(f"{function.path}: the key {name} is taken by {actions[0]}.")
        return warnings

    def shortcut(self, key: Key, bindings: Bindings) -> str | None:
        """The key of `shortcuts` that was pressed; None if there is none, or if tau uses the key itself."""
        if not self.shortcuts or bindings.actions(key):
            return None
        name = pressed(key)
        return next((given for given in self.shortcuts if normalized(given) == name), None)

    async def press(self, key: str) -> bool:
        """Run the shortcut of a key of `shortcuts`, to its end. False if there is none. A failure is reported."""
        function = self.shortcuts.get(key)
        if function is None:
            return False
        try:
            await self._extensions.ask(function.call({}), None)
        except ExtensionFailure as failure:
            self._extensions.report(function.path, f"shortcut:{key}", str(failure))
        return True

    # Completions.

    async def argument_completions(self, command: str, prefix: str) -> list[Item]:
        """What the arguments of a command can become."""
        found = self._extensions.commands.find(command)
        key = (found.path, found.registered) if found is not None else ("", command)
        function = self._extensions.terminal.completions.get(key)
        given = None if function is None else await self._call(function, {"prefix": prefix}, COMPLETION_TIMEOUT_S)
        return _items(given, prefix)

    async def autocomplete(self, lines: Sequence[str], cursor_line: int, cursor_column: int) -> list[Item]:
        """Completions of what is typed, of all extensions."""
        items: list[Item] = []
        params = {"lines": list(lines), "cursorLine": cursor_line, "cursorColumn": cursor_column}
        for function in list(self._extensions.terminal.autocomplete):
            found = await self._call(function, params, COMPLETION_TIMEOUT_S)
            if isinstance(found, Mapping) and isinstance(found.get("prefix"), str):
                items += _items(found.get("items"), found["prefix"])
        return items[:MAX_ITEMS]

    # Renderers.

    def renders_tool(self, tool: str) -> bool:
        return tool in self._extensions.terminal.tool_renderers

    def renders_message(self, custom_type: str) -> bool:
        return custom_type in self._extensions.terminal.message_renderers

    async def render_tool(
        self, tool: str, part: Literal["call", "result"], data: Any, width: int, options: Mapping[str, Any]
    ) -> list[Line] | None:
        """The lines of a call or a result; None: use tau's own form.

        `data` is the arguments of the call, or its result as on the wire. `options` has `expanded`, `isPartial` and
        `isError`.
        """
        return await self._render(self._extensions.terminal.tool_renderers.get(tool), part, data, width, options)

    async def render_message(
        self, custom_type: str, message: Any, width: int, options: Mapping[str, Any]
    ) -> list[Line] | None:
        """The lines of a custom message; None: use tau's own form."""
        function = self._extensions.terminal.message_renderers.get(custom_type)
        return await self._render(function, "message", message, width, options)

    async def _render(
        self, function: TerminalFunction | None, part: Part, data: Any, width: int, options: Mapping[str, Any]
    ) -> list[Line] | None:
        if function is None:
            return None
        params = {"part": part, "data": data, "width": width, "options": dict(options)}
        drawn = await self._call(function, params, RENDER_TIMEOUT_S)
        if not isinstance(drawn, list) or not all(isinstance(line, str) for line in drawn):
            return None
        return styled_lines(drawn, width, MAX_RENDERED_LINES)

    async def _call(self, function: TerminalFunction, params: Mapping[str, Any], seconds: float) -> Any:
        """Returns None if it fails. The first failure in a row is reported."""
        failures = self._failures.get(function, 0)
        if failures >= MAX_FAILURES:
            return None
        try:
            value = await self._extensions.ask(function.call(params), seconds)
        except ExtensionFailure as failure:
            self._failures[function] = failures + 1
            if failures == 0:
                self._extensions.report(function.path, f"terminal:{function.name}", str(failure))
            return None
        self._failures.pop(function, None)
        return value


def _items(found: Any, prefix: str) -> list[Item]:
    """Completions as an extension returns them: strings, or objects with value, label and description."""
    items: list[Item] = []
    for item in found[:MAX_ITEMS] if isinstance(found, list) else ():
        given = {"value": item} if isinstance(item, str) else item
        if not isinstance(given, Mapping) or not isinstance(given.get("value"), str):
            continue
        label, description = given.get("label"), given.get("description")
        items.append(
            Item(
                given["value"],
                label if isinstance(label, str) else given["value"],
                description if isinstance(description, str) else "",
                prefix,
            )
        )
    return items
