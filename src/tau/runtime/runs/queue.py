"""The queue of accepted prompts: runs them one after another, with retries, until each is settled.

An accepted prompt is in exactly one of these states: waiting in `_accepted`, running, or settled. Each ends in
exactly one agent_settled.

    accepted ──► agent_start … agent_end ──► retry due? ──► wait ──► agent_start …
                                        └──► agent_settled
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from tau.core.agent.budgets import limit_text as over_told
from tau.core.agent.draft import Draft, MessageDone, MessageFailed, Update
from tau.core.agent.loop import RunEnd, agent_run
from tau.core.agent.queues import MessageQueues, QueuedMessage, QueueName
from tau.core.agent.retry import Retry, next_retry
from tau.core.agent.structured_output import OutputSchema
from tau.errors import CommandError
from tau.records.base import UNSET, Value, replace
from tau.records.events import (
    AgentEnd,
    AgentSettled,
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
from tau.runtime.history.session_log import SessionLog
from tau.runtime.runs.budget import BudgetTracker
from tau.runtime.runs.compactor import Compactor
from tau.runtime.runs.driver import RunPorts, run_agent
from tau.runtime.runs.structured_output import StructuredOutputRun
from tau.runtime.runs.tool_runner import ToolRunner

log = logging.getLogger(__name__)
BeforeRun = Callable[[list[AnyMessage], AbortSignal], Awaitable[list[AnyMessage]]]


class Owner(Protocol):
    """The parts of a session that a run needs."""

    settings: Settings
    log: SessionLog
    queues: MessageQueues
    compactor: Compactor
    budget: BudgetTracker
    tool_runner: ToolRunner

    async def emit(self, event: Event) -> None: ...

    def run_ports(self) -> RunPorts: ...

    def new_draft(self) -> Draft: ...


class AcceptedPrompt(Value):
    """A prompt that will be run, with the schema of its result if it asks for structured output."""

    prompts: list[AnyMessage]
    aim: OutputSchema | None = None


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


class RunQueue:
    def __init__(self, owner: Owner, before: Callable[[AbortSignal], None], introduced: BeforeRun) -> None:
        """`before` is called when the run of a prompt starts, with the signal that aborts it.

        `introduced` returns the messages that the run really starts with; it may take a while.
        """
        self._before_run = introduced
        self._owner = owner
        self._on_run_start = before
        self._accepted: deque[AcceptedPrompt] = deque()
        self._structured_output: StructuredOutputRun | None = None  # of the current prompt
        self.outcome: PromptOutcome | None = None  # of the prompt that settled last
        self._task: asyncio.Task[None] | None = None
        self.signal = AbortSignal()  # of the current run, or of the last one
        self._streaming = False
        self._blockers = 0  # number of active blockers; no prompt is accepted while > 0
        self._working = False  # on a prompt, including its retries and compactions
        self._retries = RetryState()
        self._settled = asyncio.Event()
        self._settled.set()
        self.accepted = 0  # number of prompts accepted, ever
        self.settled = 0  # how many of them, in the same order, are settled

    @property
    def streaming(self) -> bool:
        """True from the acceptance of a prompt to its agent_end, or to its settling if the settings say so."""
        until_settled = self._working and self._owner.settings.compat.streaming_until == "settled"
        return self._streaming or bool(self._accepted) or until_settled

    @property
    def busy(self) -> bool:
        return self._task is not None

    def check_open(self) -> None:
        """Raise CommandError if no more prompts are accepted."""
        if not self.open:
            raise CommandError("The session is being left: nothing more is run in it.")

    @property
    def open(self) -> bool:
        return not self._blockers

    def close(self) -> None:
        """Accept no more prompts, for good: the extensions that guard tool calls are about to stop."""
        self._blockers += 1

    @contextmanager
    def blocked(self) -> Iterator[None]:
        """Accept no prompts meanwhile: an extension may react to the end of a run with a new prompt."""
        self._blockers += 1
        try:
            yield
        finally:
            self._blockers -= 1

    def start(self, prompts: Sequence[AnyMessage], aim: OutputSchema | None = None) -> None:
        """Accept a prompt. From now on it will be run, whatever happens. Raises CommandError if not `open`."""
        self.check_open()
        self._accepted.append(AcceptedPrompt(list(prompts), aim))
        self.accepted += 1
        self._settled.clear()
        if self._task is None:
            self.signal, self._retries = AbortSignal(), RetryState()  # it can be aborted before it starts
            self._task = asyncio.create_task(self._run_accepted())

    async def abort(self) -> None:
        """Abort the current run, and return when it has settled."""
        if self._task is None:
            return
        self.signal.abort()
        await self._settled.wait()

    def stop(self) -> None:
        """Abort the current run without waiting for it."""
        self.signal.abort()

    def cancel(self) -> None:
        """Cancel the current run, as a last resort if it did not stop after an abort."""
        if self._task is not None:
            self._task.cancel()

    @property
    def retry_attempt(self) -> int:
        """The number of the retry whose delay is running; 0 if there is none."""
        return self._retries.made if self._retries.waiting else 0

    async def abort_retry(self) -> None:
        """Cancel the pending retry, and return when the prompt has settled."""
        if self._retries.cancel():
            await self._settled.wait()

    async def idle(self) -> None:
        """Wait until nothing is left to run."""
        while self._task is not None:
            await asyncio.shield(self._task)

    async def _run_accepted(self) -> None:
        try:
            while self._accepted:
                # Removed only when it runs, so that commands in between see a prompt in progress.
                accepted = self._accepted[0]
                self._settled.clear()
                async with self._owner.compactor.turn:
                    self._on_run_start(self.signal)
                    self._streaming = True
                    self._accepted.popleft()
                    await self._run_prompt(accepted)
                if self._accepted:
                    self.signal, self._retries = AbortSignal(), RetryState()
        finally:
            self._task = None
            self._settled.set()

    async def _run_prompt(self, accepted: AcceptedPrompt) -> None:
        owner, outcome = self._owner, PromptOutcome()
        self._working = True
        self._structured_output = None if accepted.aim is None else StructuredOutputRun(accepted.aim)
        owner.tool_runner.extra_tools = (
            {} if self._structured_output is None else {self._structured_output.tool.name: self._structured_output.tool}
        )
        owner.budget.begin(self.signal)
        try:
            await self._run_with_retries(accepted.prompts, outcome)
        except Exception as error:
            log.exception("a run broke off")
            self._streaming = False
            broken = owner.new_draft().fail("error", f"Internal error: {error}").message
            outcome.messages.append(broken)
            owner.log.append_message(broken)
            await owner.emit(AgentEnd([broken]))
        finally:
            self._working = False
            owner.budget.end()
            owner.tool_runner.extra_tools = {}
        for event in self._final_events(outcome):
            await owner.emit(event)
        self.outcome = outcome
        self.settled += 1
        await owner.emit(AgentSettled(aborted=outcome.aborted))
        self._settled.set()

    async def _run_with_retries(self, prompts: list[AnyMessage], outcome: PromptOutcome) -> None:
        owner, retries = self._owner, self._retries
        await owner.compactor.before_prompt(self.signal)
        prompts = await self._before_run(prompts, self.signal)
        queued = False  # True if `prompts` were taken from a queue
        while True:
            # The log contains a prompt since its acceptance; the run starts with it, so the history leaves it out.
            telling = agent_run(
                prompts,
                owner.log.messages.but(prompts),
                parallel=owner.settings.tool_execution == "parallel",
                skip=owner.settings.compat.steer_after == "tool",
                early=owner.settings.compat.announce_answer == "asked",
                steered=not queued,
            )
            hands = self._ports(outcome)
            end = await run_agent(telling, hands, self.signal)
            outcome.messages += end.messages
            prompts, queued = [], False
            if retry := retries.due:
                outcome.messages.remove(end.ending.message)
                owner.log.drop_last_answer()
                await owner.emit(
                    AutoRetryStart(retry.attempt, owner.settings.retry.max_retries, retry.delay_ms, retry.error)
                )
                if await retries.wait(retry.delay_ms / 1000, self.signal):
                    continue
                outcome.messages.append(end.ending.message)
                await owner.emit(AutoRetryEnd(False, retry.attempt, "Retry cancelled"))
                return
            if retries.made and isinstance(end.ending, MessageFailed):
                # Reset, because a compaction may follow and repeat the prompt: that is not one of these retries.
                await owner.emit(AutoRetryEnd(False, retries.reset(), end.ending.message.error_message))
            if owner.budget.exceeded_limit is not None:
                return
            if await owner.compactor.after_run(self.signal):
                continue
            prompts = self._left_over(end)
            if not prompts:
                return
            queued = True
            if (waiting := hands.show_queues((), "steer")) is not None:
                await waiting

    def _left_over(self, end: RunEnd) -> list[AnyMessage]:
        """Return messages queued after the run last looked at the queues; they must not be stranded."""
        if self.signal.aborted or not isinstance(end.ending, MessageDone):
            return []
        return [*(self._take("steer") or self._take("follow_up"))]

    def _take(self, queue: QueueName) -> list[QueuedMessage]:
        """Take the queued messages if the budget allows another turn; otherwise they stay queued."""
        queues = self._owner.queues
        return queues.take(queue) if queues.texts(queue) and self._owner.budget.allows_turn() else []

    def _ports(self, outcome: PromptOutcome) -> RunPorts:
        owner, quest = self._owner, self._structured_output
        hands = owner.run_ports()

        def publish(event: Event | Update) -> Awaitable[None] | None:
            if isinstance(event, AgentStart):
                self._streaming = True
            elif isinstance(event, AgentEnd):
                if not event.will_retry and (words := self._events_before_end(outcome)):
                    return self._tell_end(words, event)
                self._streaming = False
            elif isinstance(event, MessageEnd) and isinstance(event.message, Assistant) and not event.message.failed:
                owner.budget.count_turn()
            waiting = hands.publish(event)
            if isinstance(event, (MessageEnd, AgentEnd)) and self._succeeded(event):
                return self._tell_success(waiting)
            return waiting

        def take(queue: QueueName) -> list[QueuedMessage]:
            taken = self._take(queue)
            if taken or queue == "steer" or quest is None or quest.done or not owner.budget.allows_turn():
                return taken
            return [*quest.reminder()]

        def may_go_on() -> bool:
            if self.signal.aborted and owner.budget.exceeded_limit is None:
                return True  # an abort is delivered as the next answer
            return not (quest is not None and quest.done) and owner.budget.allows_turn()

        def will_retry(failure: MessageFailed) -> bool:
            self._retries.due = next_retry(failure, owner.settings.retry, self._retries.made)
            return self._retries.due is not None

        return replace(hands, publish=publish, take=take, will_retry=will_retry, fit=self._fit, may_go_on=may_go_on)

    async def _fit(self) -> Iterable[StoredMessage] | None:
        """Between two turns: return the conversation if it had to be compacted for the next one, else None."""
        smaller = await self._owner.compactor.between_turns(self.signal)
        return self._owner.log.messages.but(()) if smaller else None

    def _succeeded(self, event: MessageEnd | AgentEnd) -> bool:
        """True if a retry succeeded and the settings say to announce it at this event."""
        if self._owner.settings.compat.retry_success == "run":
            if not isinstance(event, AgentEnd):
                return False
            answers = [message for message in event.messages if isinstance(message, Assistant)]
            return any(map(self._retries.ended_by, answers[-1:]))
        return isinstance(event, MessageEnd) and self._retries.ended_by(event.message)

    # Additional events at the end of a prompt.

    def _events_before_end(self, outcome: PromptOutcome) -> list[Event]:
        words: list[Event] = []
        over, quest = self._owner.budget.exceeded_limit, self._structured_output
        if over is not None and outcome.exceeded is None:
            outcome.exceeded = over
            words.append(over)
        if quest is not None and quest.has_result and outcome.output is UNSET:
            outcome.output = quest.output
            words.append(quest.event(""))
        return words

    def _final_events(self, outcome: PromptOutcome) -> list[Event]:
        words = self._events_before_end(outcome)
        outcome.aborted = self.signal.aborted and outcome.exceeded is None
        if self._structured_output is not None and outcome.output is UNSET:
            answer = outcome.answer
            why = (answer.error_message or "") if answer is not None and answer.failed else ""
            told = self._structured_output.event(
                why or (over_told(outcome.exceeded) if outcome.exceeded is not None else "")
            )
            outcome.output_error = told.error or None
            words.append(told)
        return words

    async def _tell_end(self, words: list[Event], end: AgentEnd) -> None:
        for event in words:
            await self._owner.emit(event)
        self._streaming = False
        await self._owner.emit(end)
        if self._succeeded(end):
            await self._tell_success(None)

    async def _tell_success(self, waiting: Awaitable[None] | None) -> None:
        if waiting is not None:
            await waiting
        made = self._retries.reset()
        await self._owner.emit(AutoRetryEnd(True, made))


class RetryState:
    """The number of retries of a prompt, and the delay before the next one."""

    def __init__(self) -> None:
        self.made = 0
        self.due: Retry | None = None
        self.waiting = False
        self._cancelled = asyncio.Event()

    def ended_by(self, message: AnyMessage) -> bool:
        return self.made > 0 and isinstance(message, Assistant) and not message.failed

    def reset(self) -> int:
        made, self.made = self.made, 0
        return made

    def cancel(self) -> bool:
        """Cancel the delay. True if one was running."""
        self._cancelled.set()
        return self.waiting

    async def wait(self, seconds: float, switch: AbortSignal) -> bool:
        """Wait before the due retry. True when the time is over, False if the wait was cancelled or aborted."""
        assert self.due is not None
        self.made, self.due = self.due.attempt, None
        self._cancelled.clear()
        switch.on_abort(self._cancelled.set)
        self.waiting = True
        try:
            async with asyncio.timeout(0 if switch.aborted else seconds):
                await self._cancelled.wait()
        except TimeoutError:
            return not (switch.aborted or self._cancelled.is_set())  # it may have been cancelled at the same moment
        finally:
            self.waiting = False
        return False
