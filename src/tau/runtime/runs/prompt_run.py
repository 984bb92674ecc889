"""PromptRun: the run of one prompt, with its retries and compactions, until nothing is left to do for it.

    run ──► agent_start … agent_end ──► retry due? ────────► wait ──► agent_start …
                                   ├──► context overflow? ──► compact ──► agent_start …
                                   ├──► messages queued? ───► agent_start …
                                   └──► the end; the queue sends agent_settled

It implements the ports of the driver (RunPorts), so it sees every event of the run before the client does.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tau.concurrency.tasks import failure_of
from tau.core.agent.budgets import limit_text
from tau.core.agent.draft import MessageDone, MessageFailed, Update
from tau.core.agent.loop import LoopRequest, RunEnd, agent_run
from tau.core.agent.queues import MessageQueues, QueuedMessage, QueueName
from tau.core.agent.retry import Retry, next_retry
from tau.core.agent.tool_results import ToolDone
from tau.records.base import UNSET, Value
from tau.records.events import (
    AgentEnd,
    AgentStart,
    AutoRetryEnd,
    AutoRetryStart,
    BudgetExceeded,
    Event,
    MessageEnd,
)
from tau.records.messages import AnyMessage, Assistant, StoredMessage
from tau.records.settings import Settings
from tau.runtime.abort import AbortSignal
from tau.runtime.clock import now
from tau.runtime.history.session_log import SessionLog
from tau.runtime.runs.budget import BudgetTracker
from tau.runtime.runs.compactor import Compactor
from tau.runtime.runs.driver import run_agent
from tau.runtime.runs.retry_state import RetryState
from tau.tools import Tool

if TYPE_CHECKING:
    from tau.core.agent.structured_output import OutputSchema
    from tau.runtime.runs.driver import ModelPort, ToolPort
    from tau.runtime.runs.structured_output import StructuredOutputRun

logger = logging.getLogger(__name__)
BeforeRun = Callable[[list[AnyMessage], AbortSignal], Awaitable[list[AnyMessage]]]


if TYPE_CHECKING:

    class Owner(Protocol):
        """The session of a run. Its settings and its log can be replaced between two runs."""

        settings: Settings
        log: SessionLog

        def publish(self, event: Event | Update) -> Awaitable[None] | None: ...

        def publish_queues(self, taken: Sequence[QueuedMessage], queue: QueueName) -> Awaitable[None] | None: ...

        async def emit(self, event: Event) -> None: ...

    class RunModel(ModelPort, Protocol):
        def end_run(self) -> None: ...

        def failed_answer(self, error: str) -> Assistant:
            """Return an answer that reports an error. Must not fail, whatever the state of the session."""
            ...

    class RunTools(ToolPort, Protocol):
        def begin_run(self, signal: AbortSignal, extra_tools: Mapping[str, Tool]) -> None: ...

        def is_sequential(self, name: str) -> bool: ...

        def end_run(self) -> None: ...


class RunParts(Value):
    """The parts of a session that its runs work with.

    `on_start` is called when a run starts. Then `before_run` returns the messages that it really starts with, which may
    take a while.
    """

    queues: MessageQueues
    budget: BudgetTracker
    compactor: Compactor
    model: RunModel
    tools: RunTools
    on_start: Callable[[], None]
    before_run: BeforeRun


class PromptOutcome:
    """The outcome of a prompt, however it ended.

    `aborted`: it was aborted. `exceeded`: a budget stopped it, and the answer may be partial. `output` is the result
    of a prompt that asked for structured output, `output_error` the reason why there is none.
    """

    def __init__(self) -> None:
        self.messages: list[AnyMessage] = []
        self.aborted = False
        self.exceeded: BudgetExceeded | None = None
        self.output: Any = UNSET
        self.output_error: str | None = None

    @property
    def answer(self) -> Assistant | None:
        """The last answer of the model."""
        return next((message for message in reversed(self.messages) if isinstance(message, Assistant)), None)


class PromptRun:
    def __init__(
        self, owner: Owner, parts: RunParts, prompts: Sequence[AnyMessage], output_schema: OutputSchema | None = None
    ) -> None:
        self._owner = owner
        self._parts = parts
        self._prompts = list(prompts)
        self._structured_output = None if output_schema is None else _structured_output(output_schema)
        self.signal = AbortSignal()  # it can be aborted before it starts
        self.retries = RetryState()
        self.outcome = PromptOutcome()
        self.streaming = False  # from the start to the last agent_end
        self.working = False  # from the start to the end, including retries and compactions

    async def run(self) -> None:
        """Run the prompt to its end and complete `outcome`. Whatever fails, agent_end has been sent."""
        try:
            self._begin()
            await self._run_until_done()
        except BaseException as error:
            failure = failure_of(error)
            logger.exception("a run broke off")
            await self._report_internal_error(failure)
        finally:
            self._end()
        for event in self._final_events():
            await self._owner.emit(event)

    def _begin(self) -> None:
        self.streaming = self.working = True
        self._parts.on_start()
        result_tool = None if self._structured_output is None else self._structured_output.tool
        self._parts.tools.begin_run(self.signal, {} if result_tool is None else {result_tool.name: result_tool})
        self._parts.budget.begin(self.signal, self._owner.settings.stuck_after)

    def _end(self) -> None:
        self.working = False
        self._parts.budget.end()
        self._parts.tools.end_run()
        self._parts.model.end_run()

    async def _report_internal_error(self, error: Exception) -> None:
        self.streaming = False
        answer = self._parts.model.failed_answer(f"Internal error: {error}")
        self.outcome.messages.append(answer)
        self._owner.log.append_message(answer)
        await self._owner.emit(AgentEnd([answer]))

    async def _run_until_done(self) -> None:
        await self._parts.compactor.before_prompt(self.signal)
        prompts = await self._parts.before_run(self._prompts, self.signal)
        from_queue = False  # True if `prompts` were taken from a queue
        while True:
            end = await run_agent(self._loop(prompts, from_queue=from_queue), self, self.signal)
            self.outcome.messages += end.messages
            prompts, from_queue = [], False
            if (retry := self.retries.due) is not None:
                if await self._wait_for_retry(retry, end.ending.message):
                    continue
                return
            await self._report_failed_retries(end)
            if self._parts.budget.exceeded_limit is not None:
                return
            if await self._parts.compactor.after_run(self.signal):
                continue
            prompts, from_queue = self._left_over(end), True
            if not prompts:
                return
            if (waiting := self._owner.publish_queues((), "steer")) is not None:
                await waiting

    def _loop(self, prompts: list[AnyMessage], *, from_queue: bool) -> Generator[LoopRequest, Any, RunEnd]:
        settings = self._owner.settings
        return agent_run(
            prompts,
            # The log contains a prompt since its acceptance; the run starts with it, so the history leaves it out.
            self._owner.log.messages.but(prompts),
            parallel=settings.tool_execution == "parallel",
            skip=settings.compat.steer_after == "tool",
            early=settings.compat.announce_answer == "asked",
            steered=not from_queue,
            sequential=self._parts.tools.is_sequential,
        )

    def _left_over(self, end: RunEnd) -> list[AnyMessage]:
        """Return messages queued after the run last looked at the queues; they must not be stranded."""
        if self.signal.aborted or not isinstance(end.ending, MessageDone):
            return []
        return [*(self._take("steer") or self._take("follow_up"))]

    # Retries.

    async def _wait_for_retry(self, retry: Retry, failed: Assistant) -> bool:
        """Remove the failed answer and wait for the retry. False if it was cancelled: then the answer stays."""
        self.outcome.messages.remove(failed)
        edit = self._owner.log.drop_last_answer()
        max_retries = self._owner.settings.retry.max_retries
        await self._owner.emit(AutoRetryStart(retry.attempt, max_retries, retry.delay_ms, retry.error))
        if edit is not None:
            await self._owner.emit(edit)
        if await self.retries.wait(retry.delay_ms / 1000, self.signal):
            return True
        self.outcome.messages.append(failed)
        await self._owner.emit(AutoRetryEnd(False, retry.attempt, "Retry cancelled"))
        return False

    async def _report_failed_retries(self, end: RunEnd) -> None:
        if self.retries.made and isinstance(end.ending, MessageFailed):
            # Reset, because a compaction may follow and repeat the prompt: that is not one of these retries.
            await self._owner.emit(AutoRetryEnd(False, self.retries.reset(), end.ending.message.error_message))

    def _retry_succeeded(self, event: MessageEnd | AgentEnd) -> bool:
        """True if a retry succeeded and the settings say to announce it at this event."""
        if self._owner.settings.compat.retry_success == "run":
            if not isinstance(event, AgentEnd):
                return False
            answers = [message for message in event.messages if isinstance(message, Assistant)]
            return any(map(self.retries.ended_by, answers[-1:]))
        return isinstance(event, MessageEnd) and self.retries.ended_by(event.message)

    async def _announce_retry_success(self, waiting: Awaitable[None] | None) -> None:
        if waiting is not None:
            await waiting
        await self._owner.emit(AutoRetryEnd(True, self.retries.reset()))

    # Ports of the driver.

    @property
    def model(self) -> ModelPort:
        return self._parts.model

    @property
    def tools(self) -> ToolPort:
        return self._parts.tools

    def publish(self, event: Event | Update) -> Awaitable[None] | None:
        if isinstance(event, Update):
            return self._owner.publish(event)
        if isinstance(event, MessageEnd):
            return self._publish_message_end(event)
        if isinstance(event, AgentEnd):
            return self._publish_agent_end(event)
        if isinstance(event, AgentStart):
            self.streaming = True
        return self._owner.publish(event)

    def publish_queues(self, taken: Sequence[QueuedMessage], queue: QueueName) -> Awaitable[None] | None:
        return self._owner.publish_queues(taken, queue)

    def take_queued(self, queue: QueueName) -> list[QueuedMessage]:
        """Take queued messages; at the end of a run without a structured result, the reminder that it is missing."""
        taken, output = self._take(queue), self._structured_output
        if taken or queue == "steer" or output is None or output.done or not self._parts.budget.allows_turn():
            return taken
        return [*output.reminder()]

    def will_retry(self, failure: MessageFailed) -> bool:
        self.retries.due = next_retry(failure, self._owner.settings.retry, self.retries.made)
        return self.retries.due is not None

    async def compact_if_needed(self) -> Iterable[StoredMessage] | None:
        compacted = await self._parts.compactor.between_turns(self.signal)
        return self._owner.log.messages.but(()) if compacted else None

    def may_continue(self, done: Sequence[ToolDone]) -> bool:
        budget, output = self._parts.budget, self._structured_output
        if self.signal.aborted:
            return budget.exceeded_limit is None  # an abort is delivered as the next answer
        if (output is not None and output.done) or not budget.allows_turn():
            return False
        budget.follow(done)  # it may abort the run
        return True

    def now(self) -> int:
        return now()

    def _take(self, queue: QueueName) -> list[QueuedMessage]:
        """For TakeQueued, unless the run is aborted. If the budget allows no other turn, the messages stay queued."""
        queues, budget = self._parts.queues, self._parts.budget
        if not (queues.texts(queue) and budget.allows_turn()):
            return []
        budget.forget_failures()
        return queues.take(queue)

    def _publish_message_end(self, event: MessageEnd) -> Awaitable[None] | None:
        if isinstance(event.message, Assistant) and not event.message.failed:
            self._parts.budget.count_turn()
        waiting = self._owner.publish(event)
        return self._announce_retry_success(waiting) if self._retry_succeeded(event) else waiting

    def _publish_agent_end(self, event: AgentEnd) -> Awaitable[None] | None:
        if not event.will_retry and (before := self._events_before_end()):
            return self._emit_end(before, event)
        self.streaming = False
        waiting = self._owner.publish(event)
        return self._announce_retry_success(waiting) if self._retry_succeeded(event) else waiting

    async def _emit_end(self, before: list[Event], end: AgentEnd) -> None:
        for event in before:
            await self._owner.emit(event)
        self.streaming = False
        await self._owner.emit(end)
        if self._retry_succeeded(end):
            await self._announce_retry_success(None)

    # Additional events at the end of a prompt.

    def _events_before_end(self) -> list[Event]:
        """Return what has to be sent before agent_end, each of them once: a limit that was exceeded, and the result."""
        events: list[Event] = []
        exceeded, output = self._parts.budget.exceeded_limit, self._structured_output
        if exceeded is not None and self.outcome.exceeded is None:
            self.outcome.exceeded = exceeded
            events.append(exceeded)
        if output is not None and output.has_result and self.outcome.output is UNSET:
            self.outcome.output = output.output
            events.append(output.event(""))
        return events

    def _final_events(self) -> list[Event]:
        """Return what has to be sent before agent_settled, and complete the outcome."""
        outcome, events = self.outcome, self._events_before_end()
        outcome.aborted = self.signal.aborted and outcome.exceeded is None
        if self._structured_output is not None and outcome.output is UNSET:
            event = self._structured_output.event(_reason_for_no_result(outcome))
            outcome.output_error = event.error or None
            events.append(event)
        return events


def _reason_for_no_result(outcome: PromptOutcome) -> str:
    """Return why a prompt has no structured result; empty if the model just did not give one."""
    answer = outcome.answer
    if answer is not None and answer.failed and answer.error_message:
        return answer.error_message
    return "" if outcome.exceeded is None else limit_text(outcome.exceeded)


def _structured_output(schema: OutputSchema) -> StructuredOutputRun:
    from tau.runtime.runs.structured_output import StructuredOutputRun

    return StructuredOutputRun(schema)
