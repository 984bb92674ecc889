"""What was found for one session: context files, skills, prompt templates, and the system prompt made of them.

Nothing is looked for before somebody needs it, and even what can look is loaded
then, in a thread: a folder may be far away, and whoever says `abort` meanwhile is to
be heard. What was found stays until `reload`, so that the system prompt is the same
from call to call and the provider's cache knows it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from tau.records.events import ExtensionError
from tau.records.replies import SlashCommand
from tau.store.resource_query import Sought

if TYPE_CHECKING:
    from tau.core.conversation.system_prompt import Listed
    from tau.store.resources import Found

log = logging.getLogger(__name__)
T = TypeVar("T")


class InThread(Protocol):
    def __call__(self, work: Callable[[], T]) -> Awaitable[T]: ...


class Resources:
    def __init__(self, sought: Sought, in_thread: InThread, tell: Callable[[ExtensionError], None]) -> None:
        self._sought = sought
        self._in_thread = in_thread
        self._tell = tell
        self._offers: list[tuple[str, Sequence[str], Sequence[str]]] = []
        self._found: Found | None = None
        self._turn = asyncio.Lock()
        self._in_line = 0  # messages that are being looked at, or wait for that

    @property
    def problems(self) -> Sequence[str]:
        return self._found.problems if self._found else ()

    def offer(self, source: str, skills: Sequence[str] = (), templates: Sequence[str] = ()) -> None:
        """Paths that an extension adds; they count from the next `reload`, or if nobody has looked yet."""
        self._offers.append((source, skills, templates))

    def withdraw(self) -> None:
        """Forget what was offered: the extensions are asked anew."""
        self._offers.clear()

    async def reload(self, sought: Sought | None = None) -> None:
        """Look again; somewhere else, if settings have changed."""
        async with self._turn:
            self._sought, self._found = sought or self._sought, None
            await self._look()

    async def prompt(self, tools: Sequence[Listed]) -> str:
        """The system prompt for a model that has these tools."""
        return (await self._known()).prompt(tools)

    async def commands(self) -> list[SlashCommand]:
        """The rows of get_commands that come after those of extensions."""
        return (await self._known()).commands()

    async def expanded(self, text: str) -> str:
        """What `/name` and `/skill:name` stand for; everything else as it is.

        Who comes while another is still being looked up waits for it, so that
        messages stay in order. A plain text that meets nobody waits for nothing.
        """
        if not text.startswith("/") and not self._in_line:
            return text
        self._in_line += 1  # the lock itself is free for a moment between two who wait for it
        try:
            async with self._turn:
                return await self._expansion(text) if text.startswith("/") else text
        finally:
            self._in_line -= 1

    async def _expansion(self, text: str) -> str:
        found = await self._look()
        if not found.knows(text):
            return text
        try:
            return await self._in_thread(lambda: found.expansion(text))
        except OSError as error:
            self._tell(ExtensionError(str(error.filename), "skill_expansion", error.strerror or str(error)))
            return text

    async def _known(self) -> Found:
        if self._found is not None:
            return self._found
        async with self._turn:
            return await self._look()

    async def _look(self) -> Found:
        """Only in turn."""
        if self._found is None:
            sought, offers = self._sought, tuple(self._offers)
            self._found = await self._in_thread(lambda: _look(sought, offers))
            for problem in self._found.problems:
                log.warning("%s", problem)
        return self._found


def _look(sought: Sought, offers: Sequence[tuple[str, Sequence[str], Sequence[str]]]) -> Found:
    from tau.store.resources import look

    return look(sought, offers)
