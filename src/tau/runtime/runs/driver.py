"""Driver of the agent loop: the one place where the loop's requests become awaits.

Backpressure: the result queue between a model call and the loop is bounded. When the client reads slowly, `publish`
waits, the queue fills, and the model's connection is not read.

Updates of an answer need no decision of the loop once the answer is announced. The model call then publishes them
itself while the driver waits for a result, which saves a task switch and two steps of the loop for every delta.

`_spawn` registers the tasks of model calls and tool calls with the signal; an abort cancels them. `_stream_model`
reports the cancellation to the loop as a MessageFailed, `_run_tool` as a ToolDone with `is_error`: the loop has no code
for aborts.
After an abort the driver waits at most ABORT_GRACE_S: it leaves behind work that does not stop when it is cancelled,
and reports the end of that work as an abort.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

from tau.concurrency.tasks import INNER_CANCELLATION, cancelled_from_outside
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
    WaitForResult,
)
from tau.core.agent.queues import QueuedMessage, QueueName
from tau.core.agent.tool_results import ToolDone, ToolProgress, error_outcome
from tau.errors import Aborted, ModelError, ToolError
from tau.records.base import replace
from tau.records.events import Event, Outcome
from tau.records.messages import StoredMessage, ToolCall
from tau.runtime.abort import AbortSignal
from tau.runtime.runs.result_queue import RESULT_QUEUE_LIMIT, PublishInProgress, ResultQueue
from tau.tools.partial_result import CancelledWithResult, ErrorResult
from tau.wire.unfinished import PartialJson

logger = logging.getLogger(__name__)

ABORT_GRACE_S = 0.7
ABORTED_ANSWER = "Request was aborted."


if TYPE_CHECKING:

    class ModelPort(Protocol):
        """The model calls of a run."""

        def new_draft(self) -> Draft: ...

        def stream_answer(
            self, messages: Iterable[StoredMessage], draft: Draft, relay: Callable[[Sequence[Any]], bool]
        ) -> AsyncIterator[Sequence[Any]]:
            """Stream results. Those that `relay` takes, in a callback of the event loop, are not yielded."""
            ...

    class ToolPort(Protocol):
        """The tool calls of a run, in the order of these methods."""

        async def check(self, call: ToolCall) -> dict[str, Any] | Outcome:
            """Return the arguments to run with, or the refusal of the call. Calls are checked one after another."""
            ...

        async def permit(self, call: ToolCall, arguments: dict[str, Any]) -> Outcome | None:
            """Return the refusal of a call, or None if it may run; called concurrently with other tool calls."""
            ...

        async def execute(
            self, call: ToolCall, arguments: dict[str, Any], progress: Callable[[Outcome], None]
        ) -> Outcome: ...

        async def review(self, done: ToolDone, arguments: dict[str, Any]) -> ToolDone:
            """Return the result of a tool, or another one in its place."""
            ...

    class RunPorts(Protocol):
        """What a run reaches outside the loop: implemented by PromptRun, and by tests.

        `publish` and `publish_queues` return None when there is nothing to wait for, so that a delta costs no task
        switch.
        """

        @property
        def model(self) -> ModelPort: ...

        @property
        def tools(self) -> ToolPort: ...

        def publish(self, event: Event | Update) -> Awaitable[None] | None: ...

        def publish_queues(self, taken: Sequence[QueuedMessage], queue: QueueName) -> Awaitable[None] | None: ...

        def take_queued(self, queue: QueueName) -> list[QueuedMessage]: ...

        def will_retry(self, failure: MessageFailed) -> bool: ...

        async def compact_if_needed(self) -> Iterable[StoredMessage] | None:
            """Return the compacted conversation to continue with, or None if it did not have to become shorter."""
            ...

        def may_continue(self, done: Sequence[ToolDone]) -> bool:
            """True if another turn may start after these results.

            It need not handle an abort, which is delivered as the next answer.
            """
            ...

        def now(self) -> int: ...


class MessageChain:
    """The messages before a run followed by those of the run; can be iterated repeatedly."""

    def __init__(self, history: Iterable[StoredMessage], new: Sequence[StoredMessage]) -> None:
        self._history = history
        self._new = new

    def __iter__(self) -> Iterator[StoredMessage]:
        return chain(self._history, self._new)


class Driver:
    def __init__(self, ports: RunPorts, signal: AbortSignal) -> None:
        self._ports = ports
        self._signal = signal
        self._results = ResultQueue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._draft: Draft | None = None  # of the model call in progress
        self._running: dict[int, ToolCall] = {}
        # Updates that a model call may publish itself. 0 unless the driver waits for a result and the loop needs no
        # updates. Limited, so that a model call that never waits lets the driver run.
        self._relays_left = 0
        self._abort_deadline: float | None = None  # after an abort: when to leave unfinished tasks behind
        signal.on_abort(self._results.wake)

    async def run(self, loop: Generator[LoopRequest, Any, RunEnd]) -> RunEnd:
        ports, answer = self._ports, None
        try:
            while True:
                try:
                    request = loop.send(answer)
                except StopIteration as end:
                    run: RunEnd = end.value
                    return run
                answer = None
                match request:
                    case WaitForResult(relays_updates):
                        answer = self._results.next()
                        if answer is None:
                            answer = await self._next(relays_updates)
                    case Publish(event):
                        if (waiting := ports.publish(event)) is not None:
                            await waiting
                    case AskModel(history, new):
                        self._start_model_call(MessageChain(history, new))
                    case CheckToolCall(call):
                        answer = await self._check(call)
                    case StartTool(call, arguments):
                        self._start_tool(call, arguments)
                    case TakeQueued(queue):
                        # An aborted run takes nothing: queued messages stay queued.
                        answer = [] if self._signal.aborted else ports.take_queued(queue)
                    case PublishQueues(taken, queue):
                        if (waiting := ports.publish_queues(taken, queue)) is not None:
                            await waiting
                    case CompactIfNeeded():
                        answer = None if self._signal.aborted else await ports.compact_if_needed()
                    case CheckBudget(done):
                        answer = ports.may_continue(done)
                    case CheckRetry(failure):
                        answer = not self._signal.aborted and ports.will_retry(failure)
                    case ReadClock():
                        answer = ports.now()
        finally:
            await self._cancel_tasks()

    async def _check(self, call: ToolCall) -> Any:
        """Check a tool call. It is not run if the check itself fails."""
        try:
            return await self._ports.tools.check(call)
        except Exception as error:
            logger.exception("a tool call could not be checked")
            return error_outcome(f"{type(error).__name__}: {error}")

    async def _next(self, relays_updates: bool) -> Any:
        while True:
            result = self._results.next()
            if isinstance(result, PublishInProgress):
                await result.waiting
            elif result is not None:
                return result
            elif not await self._changed(relays_updates):
                return self._give_up()

    async def _changed(self, relays_updates: bool) -> bool:
        """Wait for a result. Returns False if the run was aborted and none came in time."""
        self._relays_left = RESULT_QUEUE_LIMIT if relays_updates else 0
        try:
            if not self._signal.aborted:
                await self._results.changed()
                return True
            if self._abort_deadline is None:
                self._abort_deadline = asyncio.get_running_loop().time() + ABORT_GRACE_S
            async with asyncio.timeout_at(self._abort_deadline):
                await self._results.changed()
            return True
        except TimeoutError:
            return bool(self._results.items)  # after a stall of the event loop, a result may arrive with the timeout
        finally:
            self._relays_left = 0

    def _give_up(self) -> Any:
        """Stop waiting for a task that does not stop, and return an abort as its result."""
        if self._draft is not None:
            draft, self._draft = self._draft, None
            logger.warning("a model call did not stop when it was aborted; left behind")
            return draft.fail("aborted", self._signal.reason or ABORTED_ANSWER)
        key, call = next(iter(self._running.items()))
        del self._running[key]
        logger.warning("tool %s did not stop when it was aborted; left behind", call.name)
        return ToolDone(call, error_outcome(str(Aborted())), is_error=True)

    def _start_model_call(self, messages: Iterable[StoredMessage]) -> None:
        draft = self._draft = self._ports.model.new_draft()
        if self._signal.aborted:
            self._draft = None
            self._results.put(draft.begin(), draft.fail("aborted", self._signal.reason or ABORTED_ANSWER))
            return
        self._spawn(lambda: self._stream_model(messages, draft), lambda: self._report_missing_answer(draft))

    def _start_tool(self, call: ToolCall, arguments: dict[str, Any]) -> None:
        if self._signal.aborted:
            self._results.put(ToolDone(call, error_outcome(str(Aborted())), is_error=True))
            return
        self._running[id(call)] = call
        self._spawn(lambda: self._run_tool(call, arguments), lambda: self._report_missing_result(call))

    def _spawn(self, work: Callable[[], Coroutine[Any, Any, None]], report_missing: Callable[[], None]) -> None:
        """Start a task that reports its own result.

        `report_missing` reports in its place if it did not: a task may be cancelled before its first step.
        """

        async def safely() -> None:
            try:
                await work()
            except Exception:
                logger.exception("a piece of a run broke off")

        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            report_missing()

        task = asyncio.create_task(safely())
        self._tasks.add(task)
        task.add_done_callback(ended)
        self._signal.cancel_on_abort(task)

    def _report_missing_answer(self, draft: Draft) -> None:
        if self._draft is draft:
            self._draft = None
            if self._signal.aborted:
                self._results.put(draft.begin(), draft.fail("aborted", self._signal.reason or ABORTED_ANSWER))
            else:
                # The content of `draft` may be what broke the call.
                blank = Draft(draft.model, self._ports.now(), PartialJson)
                self._results.put(blank.fail("error", "Internal error: the model call broke off.", transient=False))

    def _report_missing_result(self, call: ToolCall) -> None:
        if self._running.pop(id(call), None) is not None:
            why = str(Aborted()) if self._signal.aborted else "Internal error: the tool broke off."
            self._results.put(ToolDone(call, error_outcome(why), is_error=True))

    async def _stream_model(self, messages: Iterable[StoredMessage], draft: Draft) -> None:
        """Stream one model call into the result queue. A failure goes to the run, as a failed message."""
        last: Any = None
        try:
            async for results in self._ports.model.stream_answer(messages, draft, self._relay):
                last = results[-1] if results else last
                if self._relay(results):
                    continue
                if self._results.has_room:
                    self._results.put(*results)
                else:
                    await self._results.put_with_backpressure(results)
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
            logger.exception("a model call failed in an unforeseen way")
            last = draft.fail("error", f"{type(error).__name__}: {error}", transient=False)
        else:
            if isinstance(last, MessageDone):
                last = None  # it is in the result queue already
            else:
                last = draft.fail("error", "The stream ended before the answer was complete.", transient=True)
        if self._draft is draft:
            self._draft = None
            if last is not None:
                self._results.put(last)

    def _relay(self, results: Sequence[Any]) -> bool:
        """Publish updates at once. Returns False if the loop has to see one of the results, or an earlier one."""
        if self._relays_left <= 0 or self._results.items:
            return False
        for result in results:
            if type(result) is not Update:
                return False
        self._relays_left -= len(results)
        for at, update in enumerate(results, 1):
            try:
                waiting = self._ports.publish(update)
            except Exception as error:
                waiting = _raise(error)  # in the driver: it is no failure of the model
            if waiting is not None:
                self._results.put(PublishInProgress(waiting), *results[at:])
                break
        return True

    async def _run_tool(self, call: ToolCall, arguments: dict[str, Any]) -> None:
        """Run one tool call. A failure goes to the model, as the result of the call."""

        def progress(outcome: Outcome) -> None:
            if not self._signal.aborted:
                self._results.progress(ToolProgress(call, outcome))

        tools, started = self._ports.tools, self._ports.now()
        try:
            if (refusal := await tools.permit(call, arguments)) is not None:
                self._done(ToolDone(call, refusal, is_error=True))
                return
            started = self._ports.now()
            outcome = await tools.execute(call, arguments, progress)
            done = ToolDone(call, outcome)
        except asyncio.CancelledError as stop:
            if not self._signal.aborted and cancelled_from_outside():
                raise
            ended = str(Aborted()) if self._signal.aborted else INNER_CANCELLATION
            text = stop.text if isinstance(stop, CancelledWithResult) else ended
            done = ToolDone(call, error_outcome(text), is_error=True)
        except ToolError as error:
            done = ToolDone(call, _failed_outcome(error), is_error=True)
        except Exception as error:
            logger.exception("tool %s failed in an unforeseen way", call.name)
            done = ToolDone(call, error_outcome(f"{type(error).__name__}: {error}"), is_error=True)
        try:
            done = await tools.review(done, arguments)
        except asyncio.CancelledError:
            if not self._signal.aborted and cancelled_from_outside():
                raise
        self._done(replace(done, duration_ms=max(0, self._ports.now() - started)))

    def _done(self, done: ToolDone) -> None:
        if self._running.pop(id(done.call), None) is not None:
            self._results.put(done)

    async def _cancel_tasks(self) -> None:
        """Cancel every task this run started: none works on for it, and a cancelled run leaves no task behind."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=ABORT_GRACE_S if self._abort_deadline is None else 0.05)


def _failed_outcome(error: ToolError) -> Outcome:
    if not isinstance(error, ErrorResult):
        return error_outcome(str(error))
    return Outcome(error.content, {} if error.details is None else error.details)


async def _raise(error: Exception) -> None:
    raise error


async def run_agent(loop: Generator[LoopRequest, Any, RunEnd], ports: RunPorts, signal: AbortSignal) -> RunEnd:
    return await Driver(ports, signal).run(loop)
