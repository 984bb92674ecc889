"""Play a telling of the loop for real: the one place where acts become awaits.

The inbox between a model and the loop is bounded: when the client reads slowly,
`publish` waits, the inbox fills, and the model's connection is left unread.

After an abort nothing is waited for longer than GRACE: work that does not stop
when it is cancelled is left behind, and its end is told as an abort.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from tau.core.agent.draft import Done, Draft, Failed, Update
from tau.core.agent.loop import (
    Act,
    AskModel,
    Check,
    Fit,
    MayGoOn,
    Now,
    Publish,
    RunEnd,
    ShowQueues,
    StartTool,
    Take,
    ToolDone,
    ToolProgress,
    Wait,
    WillRetry,
    refusal,
)
from tau.core.agent.queues import Queue, Waiting
from tau.errors import Aborted, ModelError, ToolError
from tau.records.base import Value, replace
from tau.records.events import Event, Outcome
from tau.records.messages import Stored, ToolCall
from tau.runtime.abort import AbortSignal

log = logging.getLogger(__name__)

ABORT_GRACE_S = 0.7
RESULT_QUEUE_LIMIT = 512
ABORTED_ANSWER = "Request was aborted."


class RunPorts(Value):
    """Everything a run may reach: given by the session, replaced by tests.

    `publish` and `show_queues` return None when there is nothing to wait for,
    so that a streamed piece costs no task switch.
    """

    publish: Callable[[Event | Update], Awaitable[None] | None]
    show_queues: Callable[[Sequence[Waiting], Queue], Awaitable[None] | None]
    draft: Callable[[], Draft]
    ask: Callable[[Iterable[Stored], Draft], AsyncIterator[Sequence[Any]]]
    check: Callable[[ToolCall], Awaitable[dict[str, Any] | Outcome]]
    execute: Callable[[ToolCall, dict[str, Any], Callable[[Outcome], None]], Awaitable[Outcome]]
    take: Callable[[Queue], list[Waiting]]
    will_retry: Callable[[Failed], bool]
    now: Callable[[], int]
    # Why a call may not run, if it may not; asked last, and beside what else runs.
    permit: Callable[[ToolCall, dict[str, Any]], Awaitable[Outcome | None]] | None = None
    # What shall be told as a tool's result instead; None where nobody wants to change any.
    review: Callable[[ToolDone, dict[str, Any]], Awaitable[ToolDone]] | None = None
    # The conversation to go on with if it had to become shorter, else None.
    fit: Callable[[], Awaitable[Iterable[Stored] | None]] | None = None
    # Asked between turns; an abort needs no answer here, it is told as the next answer.
    may_go_on: Callable[[], bool] = lambda: True


class ProgressMark(Value):
    """Stands in the inbox for the latest a tool has shown."""

    key: int


class MessageChain:
    """What was said before a run and in it, to be gone through as often as one likes."""

    def __init__(self, history: Iterable[Stored], new: Sequence[Stored]) -> None:
        self._history = history
        self._new = new

    def __iter__(self) -> Iterator[Stored]:
        return chain(self._history, self._new)


class ResultQueue:
    """Facts on their way to the loop."""

    def __init__(self) -> None:
        self._facts: deque[Any] = deque()
        self._shown: dict[int, ToolProgress] = {}
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    def put(self, *facts: Any) -> None:
        self._facts.extend(facts)
        self._news.set()
        if len(self._facts) > RESULT_QUEUE_LIMIT:
            self._room.clear()

    async def put_with_backpressure(self, facts: Sequence[Any]) -> None:
        """They are put even if the wait is cut short: they are part of the answer already."""
        try:
            await self._room.wait()
        finally:
            self.put(*facts)

    def progress(self, fact: ToolProgress) -> None:
        """What a tool shows replaces what it showed before, if that has not been seen yet."""
        key = id(fact.call)
        if key not in self._shown:
            self.put(ProgressMark(key))
        self._shown[key] = fact

    def next(self) -> Any:
        """The next fact, or None."""
        if not self._facts:
            return None
        fact = self._facts.popleft()
        if not self._facts:
            self._room.set()
        return self._shown.pop(fact.key) if isinstance(fact, ProgressMark) else fact

    async def wait(self) -> None:
        """Until there may be something new. `wake` ends it without a fact."""
        await self._news.wait()
        self._news.clear()

    def wake(self) -> None:
        self._news.set()


class Driver:
    def __init__(self, hands: RunPorts, switch: AbortSignal) -> None:
        self._ports = hands
        self._signal = switch
        self._inbox = ResultQueue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._draft: Draft | None = None  # of the answer that is being waited for
        self._running: dict[int, ToolCall] = {}
        self._abort_deadline: float | None = None  # after an abort: when to stop waiting for what should have stopped
        switch.on_abort(self._inbox.wake)

    async def run(self, telling: Generator[Act, Any, RunEnd]) -> RunEnd:
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
                    case Wait():
                        answer = self._inbox.next()
                        if answer is None:
                            answer = await self._next()
                    case Publish(event):
                        if (waiting := hands.publish(event)) is not None:
                            await waiting
                    case AskModel(history, new):
                        self._start_model_call(MessageChain(history, new))
                    case Check(call):
                        answer = await hands.check(call)
                    case StartTool(call, arguments):
                        self._start_tool(call, arguments)
                    case Take(queue):
                        # An aborted run takes nothing: what waits, goes on waiting.
                        answer = [] if self._signal.aborted else hands.take(queue)
                    case ShowQueues(taken, queue):
                        if (waiting := hands.show_queues(taken, queue)) is not None:
                            await waiting
                    case Fit():
                        answer = await hands.fit() if hands.fit is not None and not self._signal.aborted else None
                    case MayGoOn():
                        answer = hands.may_go_on()
                    case WillRetry(failure):
                        answer = not self._signal.aborted and hands.will_retry(failure)
                    case Now():
                        answer = hands.now()
        finally:
            await self._cancel_tasks()

    async def _next(self) -> Any:
        while (fact := self._inbox.next()) is None:
            if not self._signal.aborted:
                await self._inbox.wait()
                continue
            if self._abort_deadline is None:
                self._abort_deadline = asyncio.get_running_loop().time() + ABORT_GRACE_S
            try:
                async with asyncio.timeout_at(self._abort_deadline):
                    await self._inbox.wait()
            except TimeoutError:
                # After a stall of the event loop the fact may have come in the same moment.
                fact = self._inbox.next()
                return self._give_up() if fact is None else fact
        return fact

    def _give_up(self) -> Any:
        """Somebody does not stop: tell what should have been told."""
        if self._draft is not None:
            draft, self._draft = self._draft, None
            log.warning("a model call did not stop when it was aborted; left behind")
            return draft.failed("aborted", self._signal.reason or ABORTED_ANSWER)
        key, call = next(iter(self._running.items()))
        del self._running[key]
        log.warning("tool %s did not stop when it was aborted; left behind", call.name)
        return ToolDone(call, refusal(str(Aborted())), is_error=True)

    def _start_model_call(self, messages: Iterable[Stored]) -> None:
        draft = self._draft = self._ports.draft()
        if self._signal.aborted:
            self._draft = None
            self._inbox.put(draft.begin(), draft.failed("aborted", self._signal.reason or ABORTED_ANSWER))
            return
        self._spawn(lambda: self._stream_model(messages, draft), lambda: self._report_missing_answer(draft))

    def _start_tool(self, call: ToolCall, arguments: dict[str, Any]) -> None:
        if self._signal.aborted:
            self._inbox.put(ToolDone(call, refusal(str(Aborted())), is_error=True))
            return
        self._running[id(call)] = call
        self._spawn(lambda: self._run_tool(call, arguments), lambda: self._report_missing_result(call))

    def _spawn(self, work: Callable[[], Coroutine[Any, Any, None]], untold: Callable[[], None]) -> None:
        """Start a piece of work that tells how it ended.

        `untold` tells it in its place should it not: it may be cancelled before its first step.
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
                self._inbox.put(draft.begin(), draft.failed("aborted", self._signal.reason or ABORTED_ANSWER))
            else:
                blank = self._ports.draft()  # what is in the other one may be what broke it
                self._inbox.put(blank.failed("error", "Internal error: the model call broke off.", transient=False))

    def _report_missing_result(self, call: ToolCall) -> None:
        if self._running.pop(id(call), None) is not None:
            why = str(Aborted()) if self._signal.aborted else "Internal error: the tool broke off."
            self._inbox.put(ToolDone(call, refusal(why), is_error=True))

    async def _stream_model(self, messages: Iterable[Stored], draft: Draft) -> None:
        """The run is the reader of a model's failure."""
        last: Any = None
        try:
            async for facts in self._ports.ask(messages, draft):
                last = facts[-1] if facts else last
                await self._inbox.put_with_backpressure(facts)
        except asyncio.CancelledError:
            if self._signal.aborted:
                last = draft.failed("aborted", self._signal.reason or ABORTED_ANSWER)
            elif _cancelled_from_outside():
                raise
            else:
                last = draft.failed("error", "The model call was cancelled.", transient=False)
        except ModelError as error:
            last = draft.failed("error", str(error), transient=error.transient, retry_after_ms=error.retry_after_ms)
        except Exception as error:
            log.exception("a model call failed in an unforeseen way")
            last = draft.failed("error", f"{type(error).__name__}: {error}", transient=False)
        else:
            if isinstance(last, Done):
                last = None  # it is in the inbox already
            else:
                last = draft.failed("error", "The stream ended before the answer was complete.", transient=True)
        if self._draft is draft:
            self._draft = None
            if last is not None:
                self._inbox.put(last)

    async def _run_tool(self, call: ToolCall, arguments: dict[str, Any]) -> None:
        """The model is the reader of a tool's failure."""

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
            if not self._signal.aborted and _cancelled_from_outside():
                raise
            done = ToolDone(call, refusal(getattr(stop, "text", str(Aborted()))), is_error=True)
        except ToolError as error:
            done = ToolDone(call, refusal(str(error)), is_error=True)
        except Exception as error:
            log.exception("tool %s failed in an unforeseen way", call.name)
            done = ToolDone(call, refusal(f"{type(error).__name__}: {error}"), is_error=True)
        if self._ports.review is not None:
            try:
                done = await self._ports.review(done, arguments)
            except asyncio.CancelledError:
                if not self._signal.aborted and _cancelled_from_outside():
                    raise
        self._done(replace(done, duration_ms=max(0, self._ports.now() - begun)))

    def _done(self, done: ToolDone) -> None:
        if self._running.pop(id(done.call), None) is not None:
            self._inbox.put(done)

    async def _cancel_tasks(self) -> None:
        """Nothing this run started goes on working for it; a cancelled run leaves no task behind."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=ABORT_GRACE_S if self._abort_deadline is None else 0.05)


def _cancelled_from_outside() -> bool:
    """Whether this task was cancelled; else something it waited for was, which is only a failure."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def run_agent(telling: Generator[Act, Any, RunEnd], hands: RunPorts, switch: AbortSignal) -> RunEnd:
    return await Driver(hands, switch).run(telling)
