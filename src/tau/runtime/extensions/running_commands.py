"""Running extension commands.

A prompt that is an extension command is acknowledged when the command starts, in some dialects when it ends. The
command runs here, concurrently with a run if there is one, without a time limit, until it ends or is aborted.
"""

from __future__ import annotations

import asyncio

from tau.errors import Aborted, ExtensionFailure
from tau.runtime.extensions.command_table import Command
from tau.runtime.extensions.hooks import HookDispatcher


class RunningCommands:
    def __init__(self, hooks: HookDispatcher) -> None:
        self._hooks = hooks
        self._tasks: set[asyncio.Task[None]] = set()

    def find(self, text: str) -> tuple[Command, str] | None:
        """Return the command that `text` names, and its arguments; None if it is not a command."""
        if not text.startswith("/") or not self._hooks.extensions.commands:
            return None
        name, _, args = text[1:].partition(" ")
        command = self._hooks.extensions.commands.find(name)
        return None if command is None else (command, args)

    def start(self, command: Command, args: str) -> asyncio.Task[None]:
        self._tasks.add(task := asyncio.create_task(self._run(command, args)))
        task.add_done_callback(self._tasks.discard)
        return task

    async def _run(self, command: Command, args: str) -> None:
        extensions = self._hooks.extensions
        try:
            await extensions.ask(command.run(args), None, self._hooks.idle_signal)
        except Aborted:
            return
        except ExtensionFailure as failure:
            extensions.report(f"command:{command.name}", "command", str(failure))

    async def wait(self, seconds: float | None) -> bool:
        """Wait until no command is running; False on a timeout. `seconds`: None means no limit."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        return not self._tasks
