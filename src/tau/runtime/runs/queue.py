"""The queue of accepted prompts: runs them one after another until each is settled.

An accepted prompt is in exactly one of these states: waiting in `_waiting`, running (runtime/runs/prompt_run.py), or
settled. Each ends in exactly one agent_settled.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tau.errors import CommandError
from tau.records.events import AgentSettled
from tau.records.messages import AnyMessage
from tau.runtime.abort import AbortSignal

if TYPE_CHECKING:
    from tau.core.agent.structured_output import OutputSchema
    from tau.runtime.runs.prompt_run import Owner, PromptOutcome, PromptRun, RunParts


class RunQueue:
    def __init__(self, owner: Owner, turn: asyncio.Lock, make_parts: Callable[[], RunParts]) -> None:
        """`turn` is held during a run. `make_parts` is called for the first run."""
        self._owner = owner
        self._turn = turn
        self._make_parts = make_parts
        self._parts: RunParts | None = None
        self._waiting: deque[PromptRun] = deque()
        self._current: PromptRun | None = None  # running or about to start; while idle, the last one
        self._task: asyncio.Task[None] | None = None
        self._blockers = 0  # number of active blockers; no prompt is accepted while > 0
        self._settled = asyncio.Event()
        self._settled.set()
        self.outcome: PromptOutcome | None = None  # of the prompt that settled last
        self.accepted = 0  # number of prompts accepted, ever
        self.settled = 0  # how many of them, in the same order, are settled

    @property
    def streaming(self) -> bool:
        """True from the acceptance of a prompt to its agent_end, or to its settling if the settings say so."""
        current = self._current
        if self._waiting or (current is not None and current.streaming):
            return True
        return current is not None and current.working and self._owner.settings.compat.streaming_until == "settled"

    @property
    def busy(self) -> bool:
        return self._task is not None

    @property
    def signal(self) -> AbortSignal | None:
        """The signal that aborts the current prompt, which may be about to start; None while idle."""
        return None if self._current is None or self._task is None else self._current.signal

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

    def prepare(self) -> RunParts:
        """Do everything about a prompt that can fail, before it is recorded. Raises CommandError if not `open`."""
        from tau.runtime.runs import prompt_run  # noqa: F401  loads it

        self.check_open()
        if self._parts is None:
            self._parts = self._make_parts()
        return self._parts

    def start(self, prompts: Sequence[AnyMessage], output_schema: OutputSchema | None = None) -> None:
        """Accept a prompt. From now on it will be run, whatever happens. Raises CommandError if not `open`."""
        parts = self.prepare()
        from tau.runtime.runs.prompt_run import PromptRun

        self._waiting.append(PromptRun(self._owner, parts, prompts, output_schema))
        self.accepted += 1
        self._settled.clear()
        if self._task is None:
            self._current = self._waiting[0]
            self._task = asyncio.create_task(self._run_waiting())

    async def abort(self) -> None:
        """Abort the signal of the current prompt, and return when it has settled. Waiting prompts still run."""
        if self._task is not None:
            self.stop()
            await self._settled.wait()

    def stop(self) -> None:
        """Abort the current prompt without waiting for it."""
        if self._current is not None:
            self._current.signal.abort()

    def cancel(self) -> None:
        """Cancel the current run, as a last resort if it did not stop after an abort."""
        if self._task is not None:
            self._task.cancel()

    @property
    def retry_attempt(self) -> int:
        """The number of the retry whose delay is running; 0 if there is none."""
        current = self._current
        return current.retries.made if current is not None and current.retries.waiting else 0

    async def abort_retry(self) -> None:
        """Cancel the pending retry, and return when the prompt has settled."""
        if self._current is not None and self._current.retries.cancel():
            await self._settled.wait()

    def retry_now(self) -> None:
        """Begin the pending retry without waiting longer."""
        if self._current is not None:
            self._current.retries.skip()

    async def idle(self) -> None:
        """Wait until nothing is left to run."""
        while self._task is not None:
            await asyncio.shield(self._task)

    async def _run_waiting(self) -> None:
        try:
            while self._waiting:
                self._current = run = self._waiting[0]
                self._settled.clear()
                async with self._turn:
                    # Removed only now, so that commands in between see a prompt in progress.
                    self._waiting.popleft()
                    await run.run()
                    await self._settle(run)
        finally:
            self._task = None
            self._settled.set()

    async def _settle(self, run: PromptRun) -> None:
        self.outcome = run.outcome
        self.settled += 1
        await self._owner.emit(AgentSettled(aborted=run.outcome.aborted))
        self._settled.set()
