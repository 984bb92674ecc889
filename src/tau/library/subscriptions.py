"""Event subscriptions in the agent's process.

Readers never slow down the agent: a run that waits for a reader which in turn waits for the agent would deadlock. For
a reader that falls behind, consecutive deltas of a block are joined, and only the latest progress of a tool is kept,
so its buffer never grows beyond the size of the conversation.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self, cast

from tau.concurrency.async_queue import AsyncQueue
from tau.concurrency.tasks import await_foreign, failure_of
from tau.core.agent.draft import Update
from tau.functions.threads import is_async
from tau.records.base import replace
from tau.records.deltas import TextDelta, ThinkingDelta, ToolCallDelta
from tau.records.dialogs import AnyUiRequest, UiRequest
from tau.records.events import AnyEvent, Event, MessageEnd, MessageUpdate, ToolUpdate
from tau.records.messages import Assistant

AgentEvent = AnyEvent | AnyUiRequest
Listener = Callable[[AgentEvent], None]
EventHandler = Callable[[AgentEvent], None] | Callable[[AgentEvent], Awaitable[None]]
PieceDelta = TextDelta | ThinkingDelta | ToolCallDelta

FINAL_EVENTS_TIMEOUT_S = 1.0  # for handlers to process the last events


class Events:
    """An async iterator of events. It ends after the last event; `aclose`, or dropping it, ends it earlier."""

    def __init__(self) -> None:
        self._queue = AsyncQueue[AgentEvent]()
        self._joined: list[str] = []  # texts to be joined into the last buffered delta

    def push(self, event: AgentEvent) -> None:
        if self._queue.closed:
            return
        buffer = self._queue.items
        last = buffer[-1] if buffer else None
        if isinstance(last, MessageUpdate) and isinstance(event, MessageUpdate) and self._join(last, event):
            return
        self._flush_joined()
        if isinstance(last, ToolUpdate) and isinstance(event, ToolUpdate) and last.tool_call_id == event.tool_call_id:
            buffer.pop()
        self._queue.put(event)

    def _join(self, last: MessageUpdate, event: MessageUpdate) -> bool:
        """Join a delta to the last buffered one. Consecutive deltas belong to one message: other events separate
        messages.
        """
        old, new = last.assistant_message_event, event.assistant_message_event
        if not isinstance(old, PieceDelta) or type(old) is not type(new) or old.content_index != new.content_index:
            return False
        self._joined = self._joined or [old.delta]
        self._joined.append(new.delta)
        self._queue.items[-1] = replace(last, usage=event.usage)
        return True

    def _flush_joined(self) -> None:
        if self._joined:
            buffer = self._queue.items
            last = cast("MessageUpdate", buffer[-1])
            piece = cast("PieceDelta", last.assistant_message_event)
            buffer[-1] = replace(last, assistant_message_event=replace(piece, delta="".join(self._joined)))
            self._joined = []

    def finish(self, error: BaseException | None = None) -> None:
        """End the stream after the buffered events, with an error if one is given."""
        self._queue.close(error)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AgentEvent:
        if not await self._queue.ready():
            error, self._queue.error = self._queue.error, None
            raise error or StopAsyncIteration
        if len(self._queue) == 1:
            self._flush_joined()
        return self._queue.take()

    async def aclose(self) -> None:
        """Stop receiving events."""
        self.finish()
        self._queue.discard()
        self._joined = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()


class EventHub:
    """Distributes the events of a session to listeners and readers."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self._readers: list[weakref.ref[Events]] = []
        self._tasks: dict[Events, asyncio.Task[None]] = {}
        self._latest: Update | None = None
        self._over = False

    def publish(self, published: Event | Update | UiRequest) -> None:
        """The `client` of the session: receives every event."""
        if isinstance(published, Update):
            self._latest = published
            if not self._listeners and not self._readers:
                return
            event: AgentEvent = published.without_snapshot()
        else:
            if isinstance(published, MessageEnd):
                self._latest = None
            event = cast("AgentEvent", published)
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except BaseException as error:
                report("An event handler failed", failure_of(error))
        for reader in tuple(self._readers):
            if (events := reader()) is not None:
                events.push(event)

    @property
    def partial(self) -> Assistant | None:
        """The assistant message that is being streamed, as far as it has been received."""
        return self._latest.partial_message() if self._latest is not None else None

    def add_listener(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` directly with every event. Returns a function that unsubscribes it."""
        self._listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return unsubscribe

    def events(self) -> Events:
        """Return all events from now on. The hub holds the reader only weakly."""
        events = Events()
        if self._over:
            events.finish()
        self._readers.append(weakref.ref(events, self._readers.remove))
        return events

    def subscribe(self, handler: EventHandler) -> Callable[[], None]:
        """Subscribe a plain function, which is called directly, or a coroutine function, which is awaited event by
        event.
        """
        if not is_async(handler):
            return self.add_listener(cast("Listener", handler))
        events = self.events()
        task = asyncio.ensure_future(_deliver(events, cast("Callable[[AgentEvent], Awaitable[None]]", handler)))
        self._tasks[events] = task
        task.add_done_callback(lambda _: self._tasks.pop(events, None))

        def unsubscribe() -> None:
            events.finish()
            if task is not asyncio.current_task():
                task.cancel()

        return unsubscribe

    async def close(self) -> None:
        """End all readers. Handlers get FINAL_EVENTS_TIMEOUT_S to process the remaining events."""
        self._over = True
        for reader in tuple(self._readers):
            if (events := reader()) is not None:
                events.finish()
        if tasks := set(self._tasks.values()) - {asyncio.current_task()}:
            _, late = await asyncio.wait(tasks, timeout=FINAL_EVENTS_TIMEOUT_S)
            for task in late:
                task.cancel()
        self._listeners.clear()


async def _deliver(events: Events, handler: Callable[[AgentEvent], Awaitable[None]]) -> None:
    async for event in events:
        try:
            await await_foreign(handler(event))
        except BaseException as error:
            report("An event handler failed", failure_of(error))


def report(message: str, error: BaseException) -> None:
    asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})
