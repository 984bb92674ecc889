"""Batch runs: submit a fixed list of prompts one after the other and summarize the results.

Shared by print mode and JSON mode. Everything that belongs to a prompt (retries, compaction, writes) has finished
before the next prompt is submitted, and before the program ends. All prompts are submitted, even if an earlier one
fails.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Awaitable, Callable, Sequence

from tau.core.agent.budgets import limit_text
from tau.core.agent.draft import Update
from tau.core.checks.exit_codes import (
    ANSWERED,
    DENIED,
    FAILED,
    STUCK,
    TRUNCATED,
    exit_code_of_answer,
    exit_code_of_limit,
)
from tau.errors import CommandError
from tau.records.base import UNSET, Value, encode
from tau.records.dialogs import UiRequest
from tau.records.events import (
    AgentEnd,
    AgentSettled,
    BudgetExceeded,
    Event,
    ExtensionError,
    StructuredOutput,
    TurnEnd,
)
from tau.records.messages import Assistant, Image, Text, Usage, UsageCost
from tau.records.replies import Result
from tau.runtime.app.handle import SessionHandle
from tau.runtime.app.process import SHUTDOWN_TIMEOUT_S, StopSignal
from tau.runtime.services import Client
from tau.runtime.terminal import complain

logger = logging.getLogger(__name__)

Open = Callable[[Client], SessionHandle]


class Prompt(Value):
    text: str
    images: Sequence[Image] = ()


class RunSummary:
    """Forwards events to `client` and collects what the exit code and the final output need.

    Without `tells_outcome` the exit code does not depend on the answers, only on whether there are any.
    """

    def __init__(self, client: Client, *, tells_outcome: bool = True) -> None:
        self._client = client
        self._tells_outcome = tells_outcome
        self._refused = False
        self._since = time.monotonic()
        self._codes: set[int] = set()
        self.answer: Assistant | None = None
        self.output: StructuredOutput | None = None  # of the last prompt, if it has an output schema
        self.exceeded: BudgetExceeded | None = None  # the limit that ended the last prompt
        self.failures: list[str] = []
        self.denials: Sequence[str] = ()  # why tool calls were denied
        self.turns = 0
        self.usage = Usage()

    def pass_on(self, event: Event | Update | UiRequest) -> Awaitable[None] | None:
        if isinstance(event, TurnEnd):
            self.turns += 1
            self.usage = _sum(self.usage, event.message.usage)
        elif isinstance(event, AgentEnd):
            self.answer = next((one for one in reversed(event.messages) if isinstance(one, Assistant)), None)
        elif isinstance(event, AgentSettled):
            self._settle()
        elif isinstance(event, StructuredOutput):
            self.output = event
        elif isinstance(event, BudgetExceeded):
            self.exceeded = event
        elif isinstance(event, ExtensionError):
            complain(f"Extension error ({event.extension_path}): {event.error}")
        return self._client(event)

    def _settle(self) -> None:
        """Evaluate a settled prompt: only now is its answer final, because nothing will be retried."""
        if self.exceeded is not None:
            self._codes.add(exit_code_of_limit(self.exceeded.limit))
            self.failures.append(limit_text(self.exceeded))
        elif self.answer is None:
            self.fail("The model gave no answer.")
        elif self.answer.failed:
            self.fail(self.answer.error_message or f"Request {self.answer.stop_reason}")
        elif self.output is not None and isinstance(self.output.error, str):
            self.fail(self.output.error)
        else:
            self._codes.add(ANSWERED if self.output is not None else exit_code_of_answer(self.answer.stop_reason))

    def refuse(self, why: str) -> None:
        """A prompt was not run."""
        self._refused = True
        self.fail(why)

    def fail(self, why: str) -> None:
        self._codes.add(FAILED)
        self.failures.append(why)

    @property
    def code(self) -> int:
        """Exit code of the worst result."""
        if not self._tells_outcome:
            return FAILED if self._refused else ANSWERED
        worst = next((code for code in (FAILED, STUCK, TRUNCATED) if code in self._codes), ANSWERED)
        return DENIED if worst == ANSWERED and self.denials else worst

    @property
    def texts(self) -> list[str]:
        """The last answer, unless it failed: its structured output if it has one, else its text blocks.

        If a limit cut the answer off, the text so far.
        """
        if self.output is not None:
            return [] if self.output.value is UNSET else [encode(self.output.value).decode()]
        if self.answer is None or (self.answer.failed and self.exceeded is None):
            return []
        return [block.text for block in self.answer.content if isinstance(block, Text)]

    def result(self, handle: SessionHandle, code: int) -> Result:
        path = handle.log.path
        return Result(
            text="\n".join(texts) if (texts := self.texts) or self._answered else None,
            stop_reason=self.answer.stop_reason if self.answer is not None else None,
            error_message=self.failures[-1] if self.failures else UNSET,
            usage=self.usage,
            cost=self.usage.cost.total,
            turns=self.turns,
            duration_ms=round((time.monotonic() - self._since) * 1000),
            session_file=str(path) if path is not None and os.path.exists(path) else UNSET,
            exit_code=code,
            output=self.output.value if self.output is not None else UNSET,
            limit=self.exceeded.limit if self.exceeded is not None else UNSET,
            denials=list(self.denials) or UNSET,
        )

    @property
    def _answered(self) -> bool:
        return self.answer is not None and not self.answer.failed


async def run_prompts(stop: StopSignal, handle: SessionHandle, summary: RunSummary, prompts: Sequence[Prompt]) -> int:
    """Submit the prompts, wait until everything is settled, and close the session. Returns the exit code."""
    try:
        if await stop.unless(_ask(handle, summary, prompts)) and await stop.unless(handle.close()):
            return summary.code
        await handle.close(SHUTDOWN_TIMEOUT_S)
        return stop.code
    finally:
        handle.kill()


async def _ask(handle: SessionHandle, summary: RunSummary, prompts: Sequence[Prompt]) -> None:
    await handle.start()
    summary.denials = handle.denials
    for prompt in prompts:
        summary.output = summary.exceeded = None
        try:
            await handle.submit(prompt.text, prompt.images, None)
        except CommandError as error:  # no model, no key, or a session file that cannot be written
            summary.refuse(str(error))
            continue
        await handle.settled()


def tell_failures(summary: RunSummary, readable: Callable[[str], str] = str) -> None:
    """Print failures and denials on stderr, each one once. `readable` rewrites the text of a failure."""
    for why in dict.fromkeys(map(readable, summary.failures)):
        complain(f"Error: {why}")
    for reason in dict.fromkeys(summary.denials):
        complain(f"Denied: {reason}")


def _sum(one: Usage, other: Usage) -> Usage:
    a, b = one.cost, other.cost
    return Usage(
        one.input + other.input,
        one.output + other.output,
        one.cache_read + other.cache_read,
        one.cache_write + other.cache_write,
        one.total_tokens + other.total_tokens,
        UsageCost(
            a.input + b.input,
            a.output + b.output,
            a.cache_read + b.cache_read,
            a.cache_write + b.cache_write,
            a.total + b.total,
        ),
    )
