"""Run: one prompt of the library.

`agent.prompt(...)` returns a Run, which can be awaited and iterated with `async for`, in either order and repeatedly.
The work is a task of the agent: cancelling the caller does not cancel it.
"""

from __future__ import annotations

import asyncio
import warnings
import weakref
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from tau.library.results import Result, result_of
from tau.library.subscriptions import AgentEvent, EventHub, Events
from tau.records.events import AgentSettled, AutoRetryStart, MessageEnd
from tau.records.messages import AnyMessage, Assistant
from tau.runtime.app.handle import SessionHandle
from tau.runtime.runs.prompt_run import PromptOutcome


class RunTracker:
    """Collects the events of one prompt until it is settled."""

    def __init__(self, handle: SessionHandle) -> None:
        self._handle = handle
        self._messages: list[AnyMessage] = []
        self._answers: list[Assistant] = []
        self._readers: list[weakref.ref[Events]] = []  # held weakly
        self._prompt_number: int | None = None  # the number of this prompt in the session
        self._outcome: PromptOutcome | None = None
        self._settled = asyncio.Event()

    def new_reader(self) -> Events:
        events = Events()
        self._readers.append(weakref.ref(events))
        return events

    def on_event(self, event: AgentEvent) -> None:
        if self._settled.is_set():
            return
        for reader in self._readers:
            if (events := reader()) is not None:
                events.push(event)
        match event:
            case MessageEnd(message=message):
                self._messages.append(message)
                if isinstance(message, Assistant):
                    self._answers.append(message)
            case AutoRetryStart() if self._messages:
                self._messages.pop()  # the failed message that is being retried
            case AgentSettled():
                self._outcome = self._handle.runs.outcome
                self._check_settled()

    async def wait_settled(self, number: int) -> Result:
        """Wait until prompt `number` of the session is settled."""
        self._prompt_number = number
        self._check_settled()
        await self._settled.wait()
        return result_of(self._messages, self._answers, self._outcome, self._handle.models.unpriced)

    def _check_settled(self) -> None:
        if self._prompt_number is not None and self._handle.runs.settled >= self._prompt_number:
            self.finish()

    def finish(self, error: BaseException | None = None) -> None:
        # Set before readers are notified: the next prompt's events may follow immediately.
        self._settled.set()
        for reader in self._readers:
            if (events := reader()) is not None:
                events.finish(error)


async def run_prompt(
    handle: SessionHandle, hub: EventHub, submit: Callable[[], Awaitable[None]], tracker: RunTracker
) -> Result:
    """Submit a prompt and wait until it is settled."""
    unsubscribe = hub.add_listener(tracker.on_event)
    before, queued = handle.runs.accepted, handle.state().pending_message_count
    try:
        await submit()
        if handle.runs.accepted == before and handle.state().pending_message_count == queued:
            await handle.wait_for_commands()  # the prompt was a slash command of an extension
        return await tracker.wait_settled(handle.runs.accepted)
    except BaseException as error:
        tracker.finish(error)
        raise
    finally:
        unsubscribe()


class Run(Awaitable[Result]):
    """A prompt in progress. `await` it for its Result, or iterate over its events with `async for`; the first of
    these starts it.

    Leaving early, or being cancelled, does not abort it; use `agent.abort()`.
    """

    def __init__(self, prompt: str, tracker: RunTracker, start: Callable[[], asyncio.Task[Result]]) -> None:
        self._prompt = prompt
        self._tracker = tracker
        self._start = start
        self._task: asyncio.Task[Result] | None = None

    def start(self) -> Run:
        """Start the run without waiting for it."""
        if self._task is None:
            self._task = self._start()
        return self

    @property
    def done(self) -> bool:
        """Return True when the run has finished."""
        return self._task is not None and self._task.done()

    def __await__(self) -> Generator[Any, None, Result]:
        return self._wait().__await__()

    async def _wait(self) -> Result:
        self.start()
        assert self._task is not None
        return await asyncio.shield(self._task)

    def __aiter__(self) -> Events:
        """Iterate over the events from now on, up to AgentSettled. Raises CommandError if the prompt is rejected."""
        events = self._tracker.new_reader()
        if self.done:
            events.finish()
        self.start()
        return events

    def __del__(self) -> None:
        if self._task is None:
            warnings.warn(f"prompt {self._prompt[:40]!r} was never awaited", RuntimeWarning, stacklevel=2, source=self)
