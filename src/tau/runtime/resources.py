"""Resources of one session: context files, skills, prompt templates, and the system prompt built from them.

Loading is lazy: the first use searches the folders, and only then imports the code that searches. Both happen in a
thread, because a folder may be on a slow network and the event loop must be able to handle an `abort` meanwhile. The
result is cached until `reload`, so that the system prompt is identical from call to call and hits the provider's
prompt cache.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from tau.records.events import ExtensionError
from tau.records.replies import SlashCommand
from tau.store.resource_query import ResourceQuery

if TYPE_CHECKING:
    from tau.core.conversation.system_prompt import ListedTool
    from tau.store.resources import FoundResources

logger = logging.getLogger(__name__)
T = TypeVar("T")


if TYPE_CHECKING:

    class InThread(Protocol):
        def __call__(self, work: Callable[[], T]) -> Awaitable[T]: ...


class Resources:
    def __init__(self, query: ResourceQuery, in_thread: InThread, publish: Callable[[ExtensionError], None]) -> None:
        self._query = query
        self._in_thread = in_thread
        self._publish = publish
        self._offers: list[tuple[str, Sequence[str], Sequence[str]]] = []
        self._found: FoundResources | None = None
        self._lock = asyncio.Lock()
        self.mcp_section = ""  # the end of the system prompt, about MCP servers
        self._expanding = 0  # messages that are being expanded, or wait for their turn

    @property
    def query(self) -> ResourceQuery:
        return self._query

    @property
    def problems(self) -> Sequence[str]:
        return self._found.problems if self._found else ()

    def offer(self, source: str, skills: Sequence[str] = (), templates: Sequence[str] = ()) -> None:
        """Add paths of an extension. They take effect at the next search: the first one, or that of `reload`."""
        self._offers.append((source, skills, templates))

    def withdraw(self) -> None:
        """Drop all offered paths, because the extensions are about to be asked again."""
        self._offers.clear()

    def leave(self, query: ResourceQuery) -> None:
        """Use another query at the next search, without what extensions have offered."""
        self.withdraw()
        self._query, self._found = query, None

    @property
    def found(self) -> FoundResources | None:
        """The resources, if the search is over."""
        return self._found

    async def load(self) -> None:
        """Search, unless that is done. Messages that arrive meanwhile wait, so that they stay in order."""
        if self._found is None:
            self._expanding += 1
            try:
                await self._known()
            finally:
                self._expanding -= 1

    async def reload(self, query: ResourceQuery | None = None) -> None:
        """Search again; with another query if settings have changed."""
        async with self._lock:
            self._query, self._found = query or self._query, None
            await self._find()

    async def prompt(self, tools: Sequence[ListedTool]) -> str:
        """Return the system prompt for a model that has these tools."""
        prompt = (await self._known()).prompt(tools)
        return f"{prompt}\n\n{self.mcp_section}" if self.mcp_section else prompt

    async def commands(self) -> list[SlashCommand]:
        """Return the rows of get_commands that follow those of extensions."""
        return (await self._known()).commands()

    async def expanded(self, text: str) -> str:
        """Expand `/name` and `/skill:name`; return any other text unchanged.

        A message that arrives while another one is being expanded waits for it, so that messages stay in order. A
        plain text returns at once if no expansion is in progress.
        """
        if not text.startswith("/") and not self._expanding:
            return text
        self._expanding += 1  # not lock.locked(): the lock is briefly free between two waiters
        try:
            async with self._lock:
                return await self._expansion(text) if text.startswith("/") else text
        finally:
            self._expanding -= 1

    async def _expansion(self, text: str) -> str:
        found = await self._find()
        if not found.is_command(text):
            return text
        try:
            return await self._in_thread(lambda: found.expand(text))
        except OSError as error:
            self._publish(ExtensionError(str(error.filename), "skill_expansion", error.strerror or str(error)))
            return text

    async def _known(self) -> FoundResources:
        if self._found is not None:
            return self._found
        async with self._lock:
            return await self._find()

    async def _find(self) -> FoundResources:
        """Search once and cache the result. The caller holds `_turn`."""
        if self._found is None:
            query, offers = self._query, tuple(self._offers)
            self._found = await self._in_thread(lambda: _find(query, offers))
            for problem in self._found.problems:
                logger.warning("%s", problem)
        return self._found


def _find(query: ResourceQuery, offers: Sequence[tuple[str, Sequence[str], Sequence[str]]]) -> FoundResources:
    from tau.store.resources import find_resources

    return find_resources(query, offers)
