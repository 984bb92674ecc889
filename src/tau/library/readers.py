"""Who hears what an agent tells, in the process it runs in.

Nobody is waited for: a run that stood still because its reader asks it something
would stand still for ever. A reader that is behind finds the pieces of a block
joined to one, and of a tool's progress the newest only, so what waits for it is
never more than the conversation itself.
"""

from __future__ import annotations

import asyncio
import inspect
import weakref
from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self, cast

from tau.core.draft import Update
from tau.records.base import replace
from tau.records.deltas import TextDelta, ThinkingDelta, ToolCallDelta
from tau.records.dialogs import AnyUiRequest, UiRequest
from tau.records.events import AnyEvent, Event, MessageEnd, MessageUpdate, ToolUpdate
from tau.records.messages import Assistant

AgentEvent = AnyEvent | AnyUiRequest
Told = Callable[[AgentEvent], None]
EventHandler = Callable[[AgentEvent], None] | Callable[[AgentEvent], Awaitable[None]]
Pieces = TextDelta | ThinkingDelta | ToolCallDelta

LAST_WORDS = 1.0  # seconds for handlers to hear the end


class Events:
    """An async iterator of events. It ends when nothing more will come; `aclose`, or forgetting it, ends it before."""

    def __init__(self) -> None:
        self._waiting: deque[AgentEvent] = deque()
        self._joined: list[str] = []  # the texts of the last one that waits, if more pieces of it have come
        self._news = asyncio.Event()
        self._over = False
        self._error: BaseException | None = None

    def push(self, event: AgentEvent) -> None:
        if self._over:
            return
        last = self._waiting[-1] if self._waiting else None
        if isinstance(last, MessageUpdate) and isinstance(event, MessageUpdate) and self._joins(last, event):
            return
        self._settle()
        if isinstance(last, ToolUpdate) and isinstance(event, ToolUpdate) and last.tool_call_id == event.tool_call_id:
            self._waiting.pop()
        self._waiting.append(event)
        self._news.set()

    def _joins(self, last: MessageUpdate, event: MessageUpdate) -> bool:
        """Pieces that follow each other are of one message: between two messages something else is told."""
        old, new = last.assistant_message_event, event.assistant_message_event
        if not isinstance(old, Pieces) or type(old) is not type(new) or old.content_index != new.content_index:
            return False
        self._joined = self._joined or [old.delta]
        self._joined.append(new.delta)
        self._waiting[-1] = replace(last, usage=event.usage)
        return True

    def _settle(self) -> None:
        if self._joined:
            last = cast("MessageUpdate", self._waiting[-1])
            piece = cast("Pieces", last.assistant_message_event)
            self._waiting[-1] = replace(last, assistant_message_event=replace(piece, delta="".join(self._joined)))
            self._joined = []

    def finish(self, error: BaseException | None = None) -> None:
        """Nothing more will come after what is here."""
        if not self._over:
            self._over, self._error = True, error
            self._news.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AgentEvent:
        while not self._waiting:
            if self._over:
                error, self._error = self._error, None
                raise error or StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        if len(self._waiting) == 1:
            self._settle()
        return self._waiting.popleft()

    async def aclose(self) -> None:
        """Hear no more."""
        self.finish()
        self._waiting.clear()
        self._joined = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()


class Hub:
    """From the session to everybody who listens."""

    def __init__(self) -> None:
        self._told: list[Told] = []
        self._readers: list[weakref.ref[Events]] = []
        self._listening: dict[Events, asyncio.Task[None]] = {}
        self._latest: Update | None = None
        self._over = False

    def hear(self, said: Event | Update | UiRequest) -> None:
        """What a session calls its client."""
        if isinstance(said, Update):
            self._latest = said
            if not self._told and not self._readers:
                return
            event: AgentEvent = said.brief()
        else:
            if isinstance(said, MessageEnd):
                self._latest = None
            event = cast("AgentEvent", said)
        for told in tuple(self._told):
            try:
                told(event)
            except Exception as error:
                report("A handler of events failed", error)
        for reader in tuple(self._readers):
            if (events := reader()) is not None:
                events.push(event)

    @property
    def partial(self) -> Assistant | None:
        """The answer that is being written, as far as it has come."""
        return self._latest.so_far() if self._latest is not None else None

    def listen(self, told: Told) -> Callable[[], None]:
        """Called at once with every event. Returns a function that ends this."""
        self._told.append(told)

        def end() -> None:
            if told in self._told:
                self._told.remove(told)

        return end

    def events(self) -> Events:
        """All events from here on. Held only by whoever reads them."""
        events = Events()
        if self._over:
            events.finish()
        self._readers.append(weakref.ref(events, self._readers.remove))
        return events

    def subscribe(self, handler: EventHandler) -> Callable[[], None]:
        """A plain function is called at once; a coroutine function is awaited, one event after the other."""
        if not is_async(handler):
            return self.listen(cast("Told", handler))
        events = self.events()
        task = asyncio.ensure_future(_tell_all(events, cast("Callable[[AgentEvent], Awaitable[None]]", handler)))
        self._listening[events] = task
        task.add_done_callback(lambda _: self._listening.pop(events, None))

        def end() -> None:
            events.finish()
            if task is not asyncio.current_task():
                task.cancel()

        return end

    async def close(self) -> None:
        """Let everybody hear what is left, but not for long."""
        self._over = True
        for reader in tuple(self._readers):
            if (events := reader()) is not None:
                events.finish()
        if tasks := set(self._listening.values()) - {asyncio.current_task()}:
            _, late = await asyncio.wait(tasks, timeout=LAST_WORDS)
            for task in late:
                task.cancel()
        self._told.clear()


async def _tell_all(events: Events, handler: Callable[[AgentEvent], Awaitable[None]]) -> None:
    async for event in events:
        try:
            await handler(event)
        except Exception as error:
            report("A handler of events failed", error)


def is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def report(message: str, error: BaseException) -> None:
    asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})
