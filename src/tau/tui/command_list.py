"""The slash commands that the editor offers: those of the terminal, of extensions, prompt templates and skills."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from tau.runtime.app.handle import SessionHandle
from tau.tui.argument_value import ArgumentValue
from tau.tui.command import Command, Offered
from tau.tui.commands import COMMANDS
from tau.tui.completions import CommandEntry
from tau.tui.extension_calls import ExtensionCalls

FILE_COMMANDS = ("export", "import")  # their argument is a path
SEARCH_COMMANDS = ("resume",)  # their argument may be anything


class CommandList:
    def __init__(self, handle: SessionHandle, extension_calls: ExtensionCalls) -> None:
        self._handle = handle
        self._extension_calls = extension_calls
        self._own = [self._entry(command) for command in COMMANDS]
        self._of_session: list[CommandEntry] = []

    def entries(self) -> Sequence[CommandEntry]:
        return [*self._own, *self._of_session]

    async def update(self) -> None:
        """Ask the session again: extensions were loaded, or reloaded."""
        own = {command.name for command in COMMANDS}
        self._of_session = [
            CommandEntry(
                command.name,
                command.description if isinstance(command.description, str) else "",
                values=partial(self._completions, command.name),
            )
            for command in await self._handle.commands()
            if command.name not in own
        ]

    def _entry(self, command: Command) -> CommandEntry:
        values = None if command.values is None else self._values(command.values)
        return CommandEntry(
            command.name,
            command.about,
            command.hint,
            values,
            command.name in FILE_COMMANDS,
            command.name in SEARCH_COMMANDS,
        )

    async def _completions(self, command: str, prefix: str) -> list[ArgumentValue]:
        items = await self._extension_calls.argument_completions(command, prefix)
        return [ArgumentValue(item.value, item.description) for item in items]

    def _values(
        self, values: Callable[[SessionHandle], Offered | Awaitable[Offered]]
    ) -> Callable[[str], Awaitable[list[ArgumentValue]]]:
        async def offered(_: str) -> list[ArgumentValue]:
            found = values(self._handle)
            if inspect.isawaitable(found):
                found = await found
            return [value if isinstance(value, ArgumentValue) else ArgumentValue(value) for value in found]

        return offered
