"""One run after another: accepted, played, retried, settled.

A prompt that was accepted is in exactly one of these places: waiting in
`_accepted`, being played, or told. Each ends in exactly one agent_settled.

    accepted ──► agent_start … agent_end ──► retry due? ──► wait ──► agent_start …
                                        └──► agent_settled
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol

from tau.core.after import Retry, after
from tau.core.draft import Done, Draft, Failed, Update
from tau.core.loop import RunEnd, agent_run
from tau.core.queues import Queues
from tau.host.compact import Compactor
from tau.host.drive import Hands, drive
from tau.host.log import Log
from tau.host.switch import Switch
from tau.records.base import replace
from tau.records.events import (
    AgentEnd,
    AgentSettled,
    AgentStart,
    AutoRetryEnd,
    AutoRetryStart,
    Event,
    MessageEnd,
)
from tau.records.messages import AnyMessage, Assistant, Stored
from tau.records.settings import Settings

log = logging.getLogger(__name__)
Introduced = Callable[[list[AnyMessage], Switch], Awaitable[list[AnyMessage]]]


class Owner(Protocol):
    """What a run needs of its session."""

    settings: Settings
    log: Log
    queues: Queues
    compactor: Compactor

    async def tell(self, event: Event) -> None: ...

    def hands(self) -> Hands: ...

    def new_draft(self) -> Draft: ...


class Runs:
    def __init__(self, owner: Owner, before: Callable[[Switch], None], introduced: Introduced) -> None:
        """`before` is called when a prompt's run begins, with the switch that will abort it.

        `introduced` says what the run really begins with; it may take its time.
        """
        self._introduced = introduced
        self._owner = owner
        self._before = before
        self._accepted: deque[list[AnyMessage]] = deque()
        self._task: asyncio.Task[None] | None = None
        self.switch = Switch()  # of the run under way, or of the last
        self._streaming = False
        self._working = False  # with retries and compactions
        self._retries = Retries()
        self._settled = asyncio.Event()
        self._settled.set()

    @property
    def streaming(self) -> bool:
        """Between the acceptance of a prompt and its agent_end; or the end of what follows, if the settings say so."""
        until_settled = self._working and self._owner.settings.streaming_until == "settled"
        return self._streaming or bool(self._accepted) or until_settled

    @property
    def busy(self) -> bool:
        return self._task is not None

    def start(self, prompts: Sequence[AnyMessage]) -> None:
        """Accept a prompt. From now on it will be run, whatever happens."""
        self._accepted.append(list(prompts))
        self._settled.clear()
        if self._task is None:
            self.switch, self._retries = Switch(), Retries()  # it can be aborted before it has begun
            self._task = asyncio.create_task(self._play())

    async def abort(self) -> None:
        """Stop what is being run, and return when it has settled."""
        if self._task is None:
            return
        self.switch.flip()
        await self._settled.wait()

    def stop(self) -> None:
        """Stop what is being run, without waiting for it."""
        self.switch.flip()

    async def abort_retry(self) -> None:
        """Stop waiting for the next try, and return when the client has been told."""
        if self._retries.cancel():
            await self._settled.wait()

    async def idle(self) -> None:
        """Until nothing is left to run."""
        while self._task is not None:
            await asyncio.shield(self._task)

    async def _play(self) -> None:
        try:
            while self._accepted:
                # Taken out only when it runs, so that what comes in between finds a prompt under way.
                prompts = self._accepted[0]
                self._settled.clear()
                async with self._owner.compactor.turn:
                    self._before(self.switch)
                    self._streaming = True
                    self._accepted.popleft()
                    await self._one(prompts)
                if self._accepted:
                    self.switch, self._retries = Switch(), Retries()
        finally:
            self._task = None
            self._settled.set()

    async def _one(self, prompts: list[AnyMessage]) -> None:
        self._working = True
        try:
            await self._until_done(prompts)
        except Exception as error:
            log.exception("a run broke off")
            self._streaming = False
            broken = self._owner.new_draft().failed("error", f"Internal error: {error}").message
            self._owner.log.say(broken)
            await self._owner.tell(AgentEnd([broken]))
        finally:
            self._working = False
        await self._owner.tell(AgentSettled(aborted=self.switch.flipped))
        self._settled.set()

    async def _until_done(self, prompts: list[AnyMessage]) -> None:
        owner, retries = self._owner, self._retries
        await owner.compactor.before_prompt(self.switch)
        prompts = await self._introduced(prompts, self.switch)
        while True:
            # A prompt is in the log from the moment it was accepted; here it is what the run begins with.
            telling = agent_run(
                prompts,
                owner.log.messages.but(prompts),
                parallel=owner.settings.tool_execution == "parallel",
                skip=owner.settings.steer_after == "tool",
                early=owner.settings.announce_answer == "asked",
            )
            end = await drive(telling, self._hands(), self.switch)
            prompts = []
            if retry := retries.due:
                owner.log.forget(end.ending.message)
                await owner.tell(
                    AutoRetryStart(retry.attempt, owner.settings.retry.max_retries, retry.delay_ms, retry.error)
                )
                if await retries.wait(retry.delay_ms / 1000, self.switch):
                    continue
                await owner.tell(AutoRetryEnd(False, retry.attempt, "Retry cancelled"))
                return
            if retries.made and isinstance(end.ending, Failed):
                await owner.tell(AutoRetryEnd(False, retries.made, end.ending.message.error_message))
            if await owner.compactor.after_run(self.switch):
                continue
            prompts = self._left_over(end)
            if not prompts:
                return
            if (waiting := self._hands().show_queues((), "steer")) is not None:
                await waiting

    def _left_over(self, end: RunEnd) -> list[AnyMessage]:
        """What was queued after the run had looked for the last time must not be stranded."""
        if self.switch.flipped or not isinstance(end.ending, Done):
            return []
        queues = self._owner.queues
        return [*(queues.take("steer") or queues.take("follow_up"))]

    def _hands(self) -> Hands:
        hands = self._owner.hands()

        def publish(event: Event | Update) -> Awaitable[None] | None:
            if isinstance(event, AgentStart):
                self._streaming = True
            elif isinstance(event, AgentEnd):
                self._streaming = False
            waiting = hands.publish(event)
            if isinstance(event, (MessageEnd, AgentEnd)) and self._succeeded(event):
                return self._tell_success(waiting)
            return waiting

        def will_retry(failure: Failed) -> bool:
            self._retries.due = after(failure, self._owner.settings.retry, self._retries.made)
            return self._retries.due is not None

        return replace(hands, publish=publish, will_retry=will_retry, fit=self._fit)

    async def _fit(self) -> Iterable[Stored] | None:
        """Between two turns: the conversation, if it had to be compacted for the next."""
        smaller = await self._owner.compactor.between_turns(self.switch)
        return self._owner.log.messages.but(()) if smaller else None

    def _succeeded(self, event: MessageEnd | AgentEnd) -> bool:
        """Whether a retry brought an answer, and this is the time to say so."""
        if self._owner.settings.retry_success == "run":
            return isinstance(event, AgentEnd) and any(map(self._retries.ended_by, event.messages[-1:]))
        return isinstance(event, MessageEnd) and self._retries.ended_by(event.message)

    async def _tell_success(self, waiting: Awaitable[None] | None) -> None:
        if waiting is not None:
            await waiting
        made = self._retries.reset()
        await self._owner.tell(AutoRetryEnd(True, made))


class Retries:
    """How often a prompt was tried again, and the wait for the next time."""

    def __init__(self) -> None:
        self.made = 0
        self.due: Retry | None = None
        self._waiting = False
        self._cancelled = asyncio.Event()

    def ended_by(self, message: AnyMessage) -> bool:
        return self.made > 0 and isinstance(message, Assistant) and not message.failed

    def reset(self) -> int:
        made, self.made = self.made, 0
        return made

    def cancel(self) -> bool:
        """True if there was a wait to cut short."""
        self._cancelled.set()
        return self._waiting

    async def wait(self, seconds: float, switch: Switch) -> bool:
        """True when the time is over, False when somebody does not want to wait."""
        assert self.due is not None
        self.made, self.due = self.due.attempt, None
        self._cancelled.clear()
        switch.listen(self._cancelled.set)
        self._waiting = True
        try:
            async with asyncio.timeout(0 if switch.flipped else seconds):
                await self._cancelled.wait()
        except TimeoutError:
            return not switch.flipped
        finally:
            self._waiting = False
        return False
