"""Which runs of a session belong to prompts of this client, and when they are settled."""

from __future__ import annotations

import asyncio

from tau.acp.outcomes import PromptResult, cancelled, prompt_result
from tau.records.events import AgentSettled, AgentStart, AutoRetryStart, Event, MessageEnd, MessageStart
from tau.records.messages import Assistant, User
from tau.runtime.app.handle import SessionHandle
from tau.runtime.runs.prompt_run import PromptOutcome


class RunTracker:
    def __init__(self, handle: SessionHandle) -> None:
        self._handle = handle
        self._own: set[int] = set()  # numbers of the runs that prompts of this client started
        self._queued = 0  # messages of this client that wait for their place in a run
        self._prompting = False  # the messages that a run of this client starts with are announced
        self._retries = 0  # of the current run
        self._waiting: list[tuple[int, asyncio.Future[tuple[PromptOutcome, int] | None]]] = []

    @property
    def current(self) -> int:
        """The number of the run under way, or of the next one."""
        return self._handle.runs.settled + 1

    def add_own(self) -> int:
        """A prompt of this client was just accepted. Returns the number of its run."""
        number = self._handle.runs.accepted
        self._own.add(number)
        return number

    def add_queued(self) -> None:
        self._queued += 1

    async def result(self, number: int) -> PromptResult:
        """Wait until a run is settled. Raises AcpError if its answer failed."""
        settled: asyncio.Future[tuple[PromptOutcome, int] | None] = asyncio.get_running_loop().create_future()
        if self._handle.runs.settled >= number and self._handle.runs.outcome is not None:
            return prompt_result(self._handle.runs.outcome, 0)
        self._waiting.append((number, settled))
        found = await settled
        return cancelled() if found is None else prompt_result(*found)

    def observe(self, event: Event) -> bool:
        """Returns True for a message of the user that this client did not send."""
        match event:
            case AgentStart():
                self._prompting = self.current in self._own
            case MessageStart(Assistant()):
                self._prompting = False
            case AutoRetryStart():
                self._retries += 1
            case MessageEnd(User()):
                if self._prompting:
                    return False
                if self._queued:
                    self._queued -= 1
                    return False
                return True
            case AgentSettled():
                self._settle()
        return False

    def end(self) -> None:
        """The session is closed: nothing settles any more."""
        for _, settled in self._waiting:
            if not settled.done():
                settled.set_result(None)
        self._waiting.clear()

    def _settle(self) -> None:
        number, outcome = self._handle.runs.settled, self._handle.runs.outcome
        self._own.discard(number)
        retries, self._retries, self._queued = self._retries, 0, 0
        assert outcome is not None
        for wanted, settled in self._waiting:
            if wanted <= number and not settled.done():
                settled.set_result((outcome, retries))
        self._waiting = [one for one in self._waiting if not one[1].done()]
