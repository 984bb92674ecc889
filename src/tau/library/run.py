"""Run: one prompt of the library.

`agent.prompt(...)` returns a Run, which can be awaited and iterated with `async for`, in either order and repeatedly.
The work is a task of the agent. Cancelling a task that waits for the run aborts the run, unless the prompt was sent
with `abort_on_cancel=False`.
"""

from __future__ import annotations

import asyncio
import warnings
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, Self

from tau.concurrency.tasks import not_cancelled_again
from tau.library.results import Result, T_co, result_of
from tau.library.subscriptions import AgentEvent, EventHub, Events
from tau.records.events import AgentSettled, AutoRetryStart, MessageEnd
from tau.records.messages import AnyMessage, Assistant
from tau.runtime.app.handle import SessionHandle
from tau.runtime.runs.prompt_run import PromptOutcome

Spawn = Callable[[Coroutine[Any, Any, Any]], asyncio.Task[Any]]
ABORT_TIMEOUT_S = 5.0  # how long a cancelled task waits for the end of the run that it aborts


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
        self._started = False  # the prompt has a run of its own, or is a command
        self._abandoned = False  # the run is to be aborted as soon as it starts
        self.joined = False  # the message was queued for a run in progress, which belongs to another prompt

    def add_reader(self, events: Events) -> None:
        self._readers.append(weakref.ref(events))

    async def on_submitted(self, *, queued: bool) -> None:
        """Called when the prompt was accepted. With `queued` it joined a run that was in progress."""
        self.joined, self._started = queued, not queued
        if self._abandoned:
            await self.abort()

    async def abort(self) -> None:
        """Abort the run of this prompt. A run that it only joined continues."""
        self._abandoned = True
        own = self._started or not (self.joined or self._handle.runs.busy)
        if own and not self._settled.is_set():
            await self._handle.abort()

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

    async def wait_settled(self, number: int) -> Result[Any]:
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
    handle: SessionHandle, hub: EventHub, submit: Callable[[], Awaitable[bool]], tracker: RunTracker
) -> Result[Any]:
    """Submit a prompt and wait until it is settled. `submit` returns True if the message joined an active run."""
    unsubscribe = hub.add_listener(tracker.on_event)
    before = handle.runs.accepted
    try:
        queued = await submit()
        await tracker.on_submitted(queued=queued)
        if handle.runs.accepted == before and not queued:
            await handle.wait_for_commands()  # the prompt was a slash command of an extension
        return await tracker.wait_settled(handle.runs.accepted)
    except BaseException as error:
        tracker.finish(error)
        raise
    finally:
        unsubscribe()


class Run(Awaitable[Result[T_co]], Generic[T_co]):
    """A prompt in progress. `await` it for its Result, or iterate over its events with `async for`; the first of
    these starts it.

    Cancelling a task that waits for the result or for the next event aborts the run, and the task ends when the run
    has stopped. With `abort_on_cancel=False` the run continues, and can be awaited again. Leaving the loop early does
    not abort it.
    """

    def __init__(
        self,
        prompt: str,
        tracker: RunTracker,
        work: Callable[[], Coroutine[Any, Any, Any]],
        spawn: Spawn,
        *,
        abort_on_cancel: bool = True,
    ) -> None:
        self._prompt = prompt
        self._tracker = tracker
        self._work = work
        self._spawn = spawn
        self._task: asyncio.Task[Result[T_co]] | None = None
        self._abort_on_cancel = abort_on_cancel

    def start(self) -> Self:
        """Start the run without waiting for it."""
        if self._task is None:
            self._task = self._spawn(self._work())
        return self

    @property
    def done(self) -> bool:
        """True when the run has ended, or was rejected."""
        return self._task is not None and self._task.done()

    def __await__(self) -> Generator[Any, None, Result[T_co]]:
        return self._wait().__await__()

    async def _wait(self) -> Result[T_co]:
        self.start()
        assert self._task is not None
        try:
            return await asyncio.shield(self._task)
        except asyncio.CancelledError:
            await self._on_cancelled()
            raise

    def __aiter__(self) -> Events:
        """Iterate over the events from now on, up to AgentSettled. Raises CommandError if the prompt is rejected."""
        events = RunEvents(self)
        self._tracker.add_reader(events)
        if self.done:
            events.finish()
        self.start()
        return events

    async def _on_cancelled(self) -> None:
        """A task that waited for this run was cancelled: abort the run, and wait until it has stopped."""
        task = self._task
        if task is None or task.done() or task.cancelling() or not self._abort_on_cancel:
            return  # `cancelling`: the agent or the event loop ends the run itself
        self._spawn(self._tracker.abort())
        if not self._tracker.joined:
            with not_cancelled_again(), suppress(asyncio.CancelledError):  # a second cancellation: stop waiting
                await asyncio.wait([task], timeout=ABORT_TIMEOUT_S)

    def __repr__(self) -> str:
        prompt = self._prompt if len(self._prompt) <= 40 else self._prompt[:39] + "…"
        state = "not started" if self._task is None else "done" if self.done else "running"
        return f"<Run {prompt!r} {state}>"

    if not TYPE_CHECKING:  # type checkers know what a Run has

        def __getattr__(self, name: str) -> Any:
            if not name.startswith("_") and (name in Result.__dataclass_fields__ or hasattr(Result, name)):
                raise AttributeError(
                    f"{name} is in the result. Await the run first: `result = await agent.prompt(...)`."
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def __del__(self) -> None:
        if self._task is None:
            warnings.warn(f"prompt {self._prompt[:40]!r} was never awaited", RuntimeWarning, stacklevel=2, source=self)


class RunEvents(Events):
    """The events of one run."""

    def __init__(self, run: Run[Any]) -> None:
        super().__init__()
        self._run = run

    async def __anext__(self) -> AgentEvent:
        try:
            return await super().__anext__()
        except asyncio.CancelledError:
            await self._run._on_cancelled()
            raise
