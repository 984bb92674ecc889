"""Driver of the agent loop: the one place where the loop's requests become awaits.

Backpressure: the result queue between a model call and the loop is bounded. When the client reads slowly, `publish`
waits, the queue fills, and the model's connection is not read.

After an abort the driver waits at most ABORT_GRACE_S: it leaves behind work that does not stop when it is cancelled,
and reports the end of that work as an abort.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from tau.concurrency.async_queue import AsyncQueue
from tau.concurrency.tasks import cancelled_from_outside
from tau.core.agent.draft import Draft, MessageDone, MessageFailed, Update
from tau.core.agent.loop import (
    AskModel,
    CheckBudget,
    CheckRetry,
    CheckToolCall,
    CompactIfNeeded,
    LoopRequest,
    Publish,
    PublishQueues,
    ReadClock,
    RunEnd,
    StartTool,
    TakeQueued,
    ToolDone,
    ToolProgress,
    WaitForResult,
    error_outcome,
)
from tau.core.agent.queues import QueuedMessage, QueueName
from tau.errors import Aborted, ModelError, ToolError
from tau.records.base import Value, replace
from tau.records.events import Event, Outcome
from tau.records.messages import StoredMessage, ToolCall
from tau.runtime.abort import AbortSignal

log = logging.getLogger(__name__)

ABORT_GRACE_S = 0.7
RESULT_QUEUE_LIMIT = 512
ABORTED_ANSWER = "Request was aborted."


class RunPorts(Value):
    """The functions through which a run reaches the outside: supplied by the session, replaced by tests.

    `publish` and `show_queues` return None when there is nothing to wait for, so that a delta costs no task switch.
    """

    publish: Callable[[Event | Update], Awaitable[None] | None]
    show_queues: Callable[[Sequence[QueuedMessage], QueueName], Awaitable[None] | None]
    draft: Callable[[], Draft]
    ask: Callable[[Iterable[StoredMessage], Draft], AsyncIterator[Sequence[Any]]]
    check: Callable[[ToolCall], Awaitable[dict[str, Any] | Outcome]]
    execute: Callable[[ToolCall, dict[str, Any], Callable[[Outcome], None]], Awaitable[Outcome]]
    take: Callable[[QueueName], list[QueuedMessage]]
    will_retry: Callable[[MessageFailed], bool]
    now: Callable[[], int]
    # The refusal of a call, or None if it may run; checked last, concurrently with the other tool calls.
    permit: Callable[[ToolCall, dict[str, Any]], Awaitable[Outcome | None]] | None = None
    # Replaces the result of a tool; None if there is nothing that changes results.
    review: Callable[[ToolDone, dict[str, Any]], Awaitable[ToolDone]] | None = None
    # Returns the compacted conversation to continue with, or None if it did not have to become shorter.
    fit: Callable[[], Awaitable[Iterable[StoredMessage] | None]] | None = None
    # Called between turns. It need not handle an abort, which is delivered as the next answer.
    may_go_on: Callable[[], bool] = lambda: True


class ProgressMark(Value):
    """Placeholder in the result queue for the latest progress of a tool."""

    key: int


class MessageChain:
    """The messages before a run followed by those of the run; can be iterated repeatedly."""

    def __init__(self, history: Iterable[StoredMessage], new: Sequence[StoredMessage]) -> None:
        self._history = history
        self._new = new

    def __iter__(self) -> Iterator[StoredMessage]:
        return chain(self._history, self._new)


class ResultQueue(AsyncQueue[Any]):
    """Results on their way to the loop. Progress of a tool is coalesced."""

    def __init__(self) -> None:
        super().__init__(limit=RESULT_QUEUE_LIMIT + 1)
        self._shown: dict[int, ToolProgress] = {}

    async def put_with_backpressure(self, facts: Sequence[Any]) -> None:
        """Wait for room, then put. A cancelled wait puts the facts too: they are part of the answer already."""
        try:
            await self.room()
        finally:
            self.put(*facts)

    def progress(self, fact: ToolProgress) -> None:
        """Put the progress of a tool; it replaces earlier progress that the loop has not read yet."""
        key = id(fact.call)
        if key not in self._shown:
            self.put(ProgressMark(key))
        self._shown[key] = fact

    def next(self) -> Any:
        """Return the next fact, or None."""
        if not self.items:
            return None
        fact = self.take()
        return self._shown.pop(fact.key) if isinstance(fact, ProgressMark) else fact


class Driver:
    def __init__(self, hands: RunPorts, switch: AbortSignal) -> None:
        self._ports = hands
        self._signal = switch
        self._inbox = ResultQueue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._draft: Draft | None = None  # of the model call in progress
        self._running: dict[int, ToolCall] = {}
        self._abort_deadline: float | None = None  # after an abort: when to leave unfinished tasks behind
        switch.on_abort(self._inbox.wake)

    async def run(self, telling: Generator[LoopRequest, Any, RunEnd]) -> RunEnd:
        hands, answer = self._ports, None
        try:
            while True:
                try:
                    act = telling.send(answer)
                except StopIteration as end:
                    run: RunEnd = end.value
                    return run
                answer = None
                match act:
                    case WaitForResult():
                        answer = self._inbox.next()
                        if answer is None:
                            answer = await self._next()
                    case Publish(event):
                        if (waiting := hands.publish(event)) is not None:
                            await waiting
                    case AskModel(history, new):
                        self._start_model_call(MessageChain(history, new))
                    case CheckToolCall(call):
                        answer = await hands.check(call)
                    case StartTool(call, arguments):
                        self._start_tool(call, arguments)
                    case TakeQueued(queue):
                        # An aborted run takes nothing: queued messages stay queued.
                        answer = [] if self._signal.aborted else hands.take(queue)
                    case PublishQueues(taken, queue):
                        if (waiting := hands.show_queues(taken, queue)) is not None:
                            await waiting
                    case CompactIfNeeded():
                        answer = await hands.fit() if hands.fit is not None and not self._signal.aborted else None
                    case CheckBudget():
                        answer = hands.may_go_on()
                    case CheckRetry(failure):
                        answer = not self._signal.aborted and hands.will_retry(failure)
                    case ReadClock():
                        answer = hands.now()
        finally:
            await self._cancel_tasks()

    async def _next(self) -> Any:
        while (fact := self._inbox.next()) is None:
            if not self._signal.aborted:
                await self._inbox.changed()
                continue
            if self._abort_deadline is None:
                self._abort_deadline = asyncio.get_running_loop().time() + ABORT_GRACE_S
            try:
                async with asyncio.timeout_at(self._abort_deadline):
                    await self._inbox.changed()
            except TimeoutError:
                # After a stall of the event loop, the fact may arrive together with the timeout.
                fact = self._inbox.next()
                return self._give_up() if fact is None else fact
        return fact

    def _give_up(self) -> Any:
        """Stop waiting for a task that does not stop, and return an abort as its result."""
        if self._draft is not None:
            draft, self._draft = self._draft, None
            log.warning("a model call did not stop when it was aborted; left behind")
            return draft.fail("aborted", self._signal.reason or ABORTED_ANSWER)
        key, call = next(iter(self._running.items()))
        del self._running[key]
        log.warning("tool %s did not stop when it was aborted; left behind", call.name)
        return ToolDone(call, error_outcome(str(Aborted())), is_error=True)

    def _start_model_call(self, messages: Iterable[StoredMessage]) -> None:
        draft = self._draft = self._ports.draft()
        if self._signal.aborted:
            self._draft = None
            self._inbox.put(draft.begin(), draft.fail("aborted", self._signal.reason or ABORTED_ANSWER))
            return
        self._spawn(lambda: self._stream_model(messages, draft), lambda: self._report_missing_answer(draft))

    def _start_tool(self, call: ToolCall, arguments: dict[str, Any]) -> None:
        if self._signal.aborted:
            self._inbox.put(ToolDone(call, error_outcome(str(Aborted())), is_error=True))
            return
        self._running[id(call)] = call
        self._spawn(lambda: self._run_tool(call, arguments), lambda: self._report_missing_result(call))

    def _spawn(self, work: Callable[[], Coroutine[Any, Any, None]], untold: Callable[[], None]) -> None:
        """Start a task that reports its own result.

        `untold` reports in its place if it did not: a task may be cancelled before its first step.
        """

        async def safely() -> None:
            try:
                await work()
            except Exception:
                log.exception("a piece of a run broke off")

        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            untold()

        task = asyncio.create_task(safely())
        self._tasks.add(task)
        task.add_done_callback(ended)
        self._signal.cancel_on_abort(task)

    def _report_missing_answer(self, draft: Draft) -> None:
        if self._draft is draft:
            self._draft = None
            if self._signal.aborted:
                self._inbox.put(draft.begin(), draft.fail("aborted", self._signal.reason or ABORTED_ANSWER))
            else:
                blank = self._ports.draft()  # the content of `draft` may be what broke the call
                self._inbox.put(blank.fail("error", "Internal error: the model call broke off.", transient=False))

    def _report_missing_result(self, call: ToolCall) -> None:
        if self._running.pop(id(call), None) is not None:
            why = str(Aborted()) if self._signal.aborted else "Internal error: the tool broke off."
            self._inbox.put(ToolDone(call, error_outcome(why), is_error=True))

    async def _stream_model(self, messages: Iterable[StoredMessage], draft: Draft) -> None:
        """Stream one model call into the result queue. A failure goes to the run, as a failed message."""
        last: Any = None
        try:
            async for facts in self._ports.ask(messages, draft):
                last = facts[-1] if facts else last
                await self._inbox.put_with_backpressure(facts)
        except asyncio.CancelledError:
            if self._signal.aborted:
                last = draft.fail("aborted", self._signal.reason or ABORTED_ANSWER)
            elif cancelled_from_outside():
                raise
            else:
                last = draft.fail("error", "The model call was cancelled.", transient=False)
        except ModelError as error:
            last = draft.fail("error", str(error), transient=error.transient, retry_after_ms=error.retry_after_ms)
        except Exception as error:
            log.exception("a model call failed in an unforeseen way")
            last = draft.fail("error", f"{type(error).__name__}: {error}", transient=False)
        else:
            if isinstance(last, MessageDone):
                last = None  # it is in the result queue already
            else:
                last = draft.fail("error", "The stream ended before the answer was complete.", transient=True)
        if self._draft is draft:
            self._draft = None
            if last is not None:
                self._inbox.put(last)

    async def _run_tool(self, call: ToolCall, arguments: dict[str, Any]) -> None:
        """Run one tool call. A failure goes to the model, as the result of the call."""

        def progress(outcome: Outcome) -> None:
            if not self._signal.aborted:
                self._inbox.progress(ToolProgress(call, outcome))

        begun = self._ports.now()
        try:
            if self._ports.permit is not None:
                if (refused := await self._ports.permit(call, arguments)) is not None:
                    self._done(ToolDone(call, refused, is_error=True))
                    return
                begun = self._ports.now()
            outcome = await self._ports.execute(call, arguments, progress)
            done = ToolDone(call, outcome)
        except asyncio.CancelledError as stop:
            if not self._signal.aborted and cancelled_from_outside():
                raise
            done = ToolDone(call, error_outcome(getattr(stop, "text", str(Aborted()))), is_error=True)
        except ToolError as error:
            done = ToolDone(call, error_outcome(str(error)), is_error=True)
        except Exception as error:
            log.exception("tool %s failed in an unforeseen way", call.name)
            done = ToolDone(call, error_outcome(f"{type(error).__name__}: {error}"), is_error=True)
        if self._ports.review is not None:
            try:
                done = await self._ports.review(done, arguments)
            except asyncio.CancelledError:
                if not self._signal.aborted and cancelled_from_outside():
                    raise
        self._done(replace(done, duration_ms=max(0, self._ports.now() - begun)))

    def _done(self, done: ToolDone) -> None:
        if self._running.pop(id(done.call), None) is not None:
            self._inbox.put(done)

    async def _cancel_tasks(self) -> None:
        """Cancel every task this run started: none works on for it, and a cancelled run leaves no task behind."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=ABORT_GRACE_S if self._abort_deadline is None else 0.05)


async def run_agent(telling: Generator[LoopRequest, Any, RunEnd], hands: RunPorts, switch: AbortSignal) -> RunEnd:
    return await Driver(hands, switch).run(telling)
