"""Commands of extensions that are under way.

A prompt that is a command of an extension is answered when the command begins,
and the command goes on here: beside a run if there is one, for as long as it
likes, until it is aborted.
"""

from __future__ import annotations

import asyncio

from tau.errors import Aborted, ExtensionFailure
from tau.runtime.extensions.hooks import HookDispatcher
from tau.runtime.extensions.registry import Command


class RunningCommands:
    def __init__(self, hooks: HookDispatcher) -> None:
        self._hooks = hooks
        self._tasks: set[asyncio.Task[None]] = set()

    def find(self, text: str) -> tuple[Command, str] | None:
        """The command that `text` is, and what stands behind its name."""
        if not text.startswith("/") or not self._hooks.extensions.commands:
            return None
        name, _, args = text[1:].partition(" ")
        command = self._hooks.extensions.commands.get(name)
        return None if command is None else (command, args)

    def start(self, command: Command, args: str) -> None:
        self._tasks.add(task := asyncio.create_task(self._run(command, args)))
        task.add_done_callback(self._tasks.discard)

    async def _run(self, command: Command, args: str) -> None:
        extensions = self._hooks.extensions
        try:
            await extensions.ask(command.run(args), None, self._hooks.idle_signal)
        except Aborted:
            return
        except ExtensionFailure as failure:
            extensions.report(f"command:{command.name}", "command", str(failure))

    async def wait(self, seconds: float | None) -> bool:
        """Wait until nothing is under way; False if that takes longer. None: as long as it takes."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        return not self._tasks
