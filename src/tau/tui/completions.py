"""Answers completion queries: commands and their arguments, files for `@`, paths for Tab.

Blocking sources run in a thread; a query that is not current any more is cancelled.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import chain, repeat

from tau.concurrency.threads import run_in_thread
from tau.records.base import Value, replace
from tau.screen.completion import Proposal, Query, path_query
from tau.screen.fuzzy import fuzzy_rank
from tau.tui.argument_value import ArgumentValue, Values
from tau.tui.file_index import FileIndex
from tau.tui.files import file_proposals, path_proposals


class CommandEntry(Value):
    """A slash command in the list. `argument_hint` is "<path>" if the command needs it, "[path]" if it may have it.

    `values` returns the values of the argument for the text that was typed; they are filtered here. Without it,
    `completes_files` offers paths. `optional`: the argument may also be another text, which Enter takes as it is.
    """

    name: str
    description: str = ""
    argument_hint: str = ""
    values: Callable[[str], Values | Awaitable[Values]] | None = None
    completes_files: bool = False
    optional: bool = False


Offer = Callable[[Query, Sequence[Proposal]], None]
# A provider of an extension: proposals for a query, or None if it has none.
Provider = Callable[[Query], Awaitable[Sequence[Proposal] | None]]


class Completions:
    def __init__(
        self,
        index: FileIndex,
        commands: Callable[[], Sequence[CommandEntry]],
        offer: Offer,
        providers: Callable[[], Sequence[Provider]] = tuple,
    ) -> None:
        """`offer` is called with proposals for a query: at least once, and again when better ones are found."""
        self.index = index
        self._commands = commands
        self._offer = offer
        self._providers = providers
        self._task: asyncio.Task[None] | None = None

    def ask(self, query: Query) -> None:
        """Answer a query in a task; the query before it is cancelled."""
        self.cancel()
        self._task = asyncio.get_running_loop().create_task(self.answer(query))

    @property
    def pending(self) -> bool:
        """Proposals may come at any moment."""
        return self._task is not None and not self._task.done()

    def cancel(self) -> None:
        if self._task:
            self._task.cancel()
            self._task = None

    async def answer(self, query: Query) -> None:
        for provider in self._providers():
            found = await provider(query)
            if found:
                self._offer(query, found)
                return
        match query.kind:
            case "command":
                self._offer(query, command_proposals(query, self._commands()))
            case "argument":
                self._offer(query, await self._arguments(query))
            case "file":
                await self._files(query)
            case "path":
                self._offer(query, await self._paths(query))

    async def _arguments(self, query: Query) -> Sequence[Proposal]:
        command = next((entry for entry in self._commands() if entry.name == query.command), None)
        if command is None:
            return await self._paths(query) if query.forced else ()
        if command.values is None:
            return await self._paths(query) if command.completes_files or query.forced else ()
        given = command.values(query.text)
        values = await given if inspect.isawaitable(given) else given
        found = fuzzy_rank(query.text, values, ArgumentValue.searched)
        return [
            Proposal(one.value, one.label or one.value, one.description, submits=True, optional=command.optional)
            for one in found
        ]

    async def _paths(self, query: Query) -> Sequence[Proposal]:
        """Paths for the last word of the query. The proposals replace the whole query."""
        last = path_query(query.text) if query.kind == "argument" else query
        if query.kind == "argument" and _is_complete(query.text, last):
            return ()
        found = await run_in_thread(lambda: path_proposals(last, self.index.cwd), "path completion")
        kept = query.text[: last.start] if query.kind == "argument" else ""
        proposals = [replace(proposal, value=kept + proposal.value) for proposal in found]
        return [] if [one.value for one in proposals] == [query.text] else proposals  # Enter then sends the command

    async def _files(self, query: Query) -> None:
        self.index.refresh()
        for pause in chain((0.01, 0.02, 0.05), repeat(0.1)):
            complete = self.index.complete
            answers = file_proposals(query, self.index)
            while (found := await run_in_thread(partial(next, answers, None), "file completion")) is not None:
                if found or complete:
                    self._offer(query, found)
            if complete:
                return
            # The list still grows: search again when it is complete, or after a while.
            await run_in_thread(partial(self.index.wait, pause), "file completion")


def _is_complete(argument: str, last: Query) -> bool:
    """True if the argument ends with a path in quotes that are closed."""
    return not last.text and argument[: last.start].endswith('"')


def command_proposals(query: Query, commands: Sequence[CommandEntry]) -> list[Proposal]:
    """Commands by their name, in their order if nothing was typed yet. `skill:` need not be typed."""
    whole = query.text.startswith("skill:")
    found = fuzzy_rank(query.text, commands, lambda entry: entry.name if whole else entry.name.removeprefix("skill:"))
    return [_command(entry) for entry in found]


def _command(entry: CommandEntry) -> Proposal:
    description = " — ".join(part for part in (entry.argument_hint, entry.description) if part)
    needs_argument = entry.argument_hint.startswith("<")
    return Proposal(f"/{entry.name} ", entry.name, description, partial=needs_argument, submits=not needs_argument)
