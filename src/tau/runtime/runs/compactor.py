"""Compactions and branch summaries: when they are due, the model calls, the entries and events.

The lock `turn` serializes all work on the conversation: it is held by a run, including its automatic compactions, or
by a manual compaction. So automatic and manual compactions never overlap, and neither do a compaction and a prompt.

A manual compaction aborts the current run, but only if there is something to compact. It does not start a run: queued
messages wait for the next prompt.

Nothing is changed before the whole summary has arrived. An abort, a failure or a cancellation until then leaves the
conversation as it was.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Protocol

from tau.core.agent.draft import Draft, MessageDone, MessageFailed
from tau.core.agent.retry import next_retry
from tau.core.conversation.branches import Branch, plan_branch_summary
from tau.core.conversation.compaction import (
    CompactionDue,
    CompactionPlan,
    CompactionReason,
    compaction_due,
    plan_compaction,
    settings_for_window,
)
from tau.core.conversation.summaries import NO_CONTENT, SummaryRequest, summary_text
from tau.core.conversation.tokens import TreeEntry, context_tokens, sum_usage
from tau.core.conversation.tree import Tree
from tau.errors import Aborted, CommandError, ModelError, TauError
from tau.records.base import UNSET, UnsetType, Value, parse_stored, replace
from tau.records.events import CompactionEnd, CompactionResult, CompactionStart, Event
from tau.records.messages import Usage
from tau.records.models import Model, ThinkingLevel
from tau.records.settings import CompactionSettings, Settings
from tau.runtime.abort import AbortSignal, until_aborted
from tau.runtime.clock import iso, now
from tau.runtime.extensions.hooks import HookDispatcher
from tau.runtime.runs.driver import ABORT_GRACE_S
from tau.wire.unfinished import PartialJson

log = logging.getLogger(__name__)

About = Mapping[str, Any]
MANUAL: About = {"reason": "manual", "willRetry": False}

CANCELLED = "Compaction cancelled"
HOPELESS = (
    "Context overflow recovery failed after one compact-and-retry attempt. "
    "Try reducing context or switching to a larger-context model."
)
FAILED: dict[CompactionReason, str] = {
    "threshold": "Auto-compaction failed: ",
    "overflow": "Context overflow recovery failed: ",
}


class Chosen(Protocol):
    """The models of a session (runtime/models/selection.py)."""

    current: Model | None
    level: ThinkingLevel

    def ready(self) -> Model: ...


class Written(Protocol):
    """The log of a session (runtime/history/session_log.py)."""

    tree: Tree

    def compact(
        self,
        summary: str,
        first_kept: str,
        tokens_before: int,
        details: Any,
        *,
        from_hook: bool = False,
        usage: Usage | UnsetType = UNSET,
    ) -> None: ...

    def drop_last_answer(self) -> None: ...


class Owner(Protocol):
    """The parts of a session that a compaction needs."""

    settings: Settings

    @property
    def models(self) -> Chosen: ...

    @property
    def log(self) -> Written: ...

    async def emit(self, event: Event) -> None: ...

    def stream_summary(self, request: SummaryRequest, draft: Draft) -> AsyncIterator[Sequence[Any]]:
        """Call the model of the draft as usual, but without tools and with the limits of the request."""
        ...


class BranchText(Value):
    summary: str
    details: dict[str, list[str]]
    usage: Usage | UnsetType = UNSET


class Compactor:
    def __init__(self, owner: Owner, stop_run: Callable[[], None], hooks: HookDispatcher | None = None) -> None:
        """`stop_run` aborts the current run, if any, without waiting."""
        self._hooks = hooks
        self._owner = owner
        self._stop_run = stop_run
        self.turn = asyncio.Lock()
        self._manual = asyncio.Lock()  # one manual compaction at a time, so that each sees the result of the last one
        self._wanted: dict[AbortSignal, asyncio.Event] = {}  # those that run or wait for `turn`, with their ends
        self._working = 0

    @property
    def busy(self) -> bool:
        """True while a summary is being made."""
        return self._working > 0

    async def abort(self) -> None:
        """Abort every compaction, and return when they have stopped. Later ones are not waited for.

        The abort signal of a run also stops the compaction inside the run.
        """
        wanted = list(self._wanted.items())
        for switch, _ in wanted:
            switch.abort()
        for _, end in wanted:
            await end.wait()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[AbortSignal]:
        """Abort the current run and hold `turn`. `abort` aborts the signal that this yields."""
        with self._under_way(AbortSignal()) as switch:
            self._stop_run()
            async with self.turn:
                yield switch

    # Manual compactions.

    async def compact(self, instructions: str | None = None) -> CompactionResult:
        """Abort the current run and compact. Raises CommandError; a refused compaction does not abort the run."""
        try:
            with self._under_way(AbortSignal()) as switch:
                async with self._manual:
                    return await self._compact_alone(instructions, switch)
        except Aborted:
            await self._tell_failed(MANUAL, None)
            raise CommandError(CANCELLED) from None
        except TauError as error:
            await self._tell_failed(MANUAL, str(error))
            raise CommandError(str(error)) from None

    async def _compact_alone(self, instructions: str | None, switch: AbortSignal) -> CompactionResult:
        try:
            if switch.aborted:
                raise Aborted
            self._planned()
        except TauError as error:
            return await self._told(_raising(error))
        self._stop_run()
        async with self.turn:
            return await self._told(lambda: self._compact(instructions, switch))

    async def _told(self, work: Callable[[], Awaitable[CompactionResult]]) -> CompactionResult:
        """Emit compaction_start and exactly one compaction_end for a manual compaction, however it ends."""
        tell = self._owner.emit
        await tell(CompactionStart("manual"))
        try:
            result = await work()
        except Aborted:
            await tell(CompactionEnd("manual", None, True, False))
            raise
        except TauError as error:
            await tell(CompactionEnd("manual", None, False, False, f"Compaction failed: {error}"))
            raise
        await tell(CompactionEnd("manual", result, False, False))
        return result

    def _planned(self) -> tuple[CompactionPlan, CompactionSettings, Model]:
        """Plan a compaction. Raises CommandError if there is nothing to compact, or no usable model."""
        model = self._owner.models.ready()
        settings = self._settings(model)
        plan = plan_compaction(Branch(self._owner.log.tree), settings)
        if isinstance(plan, str):
            raise CommandError(plan)
        return plan, settings, model

    async def _compact(self, instructions: str | None, switch: AbortSignal) -> CompactionResult:
        plan, settings, model = self._planned()
        with self._at_work():
            about = MANUAL if instructions is None else {**MANUAL, "customInstructions": instructions}
            return await self._carry_out(plan, settings, model, about, switch)

    async def branch_summary(
        self, left: Sequence[TreeEntry], switch: AbortSignal, instructions: str | None = None, *, replace: bool = False
    ) -> BranchText:
        """Summarize a branch that is being left. Call it inside `alone`; raises Aborted or CommandError."""
        model, level = self._owner.models.ready(), self._owner.models.level
        reserve = max(0, self._owner.settings.branch_summary.reserve_tokens)
        plan = plan_branch_summary(left, model.context_window, reserve)
        if not plan.messages:
            return BranchText(NO_CONTENT, plan.files.details)
        request = plan.request(model, level, reserve, instructions, replace=replace)
        with self._at_work():
            try:
                answer, usage = await self._summary(request, model, switch)
            except ModelError as error:
                raise CommandError(str(error)) from None
        return BranchText(plan.summary(answer), plan.files.details, usage)

    # Automatic compactions, called by a run that holds `turn`.

    async def before_prompt(self, switch: AbortSignal) -> None:
        """Compact if needed before an accepted prompt is run."""
        found = self._due(before_prompt=True)
        if found is not None and not found.tried and not switch.aborted:
            await self._automatic(found, switch, again=False)

    async def between_turns(self, switch: AbortSignal) -> bool:
        """Compact if needed before the next model call of a run. True if the conversation has changed."""
        if switch.aborted or not self._owner.settings.compaction.between_turns:
            return False
        found = self._due(before_prompt=False)
        return found is not None and not found.tried and await self._automatic(found, switch, again=False)

    async def after_run(self, switch: AbortSignal) -> bool:
        """Compact if needed after a run that will not be retried. True if its prompt fits now and is repeated."""
        found = None if switch.aborted else self._due(before_prompt=False)
        if found is None:
            return False
        if found.tried:
            await self._owner.emit(CompactionEnd(found.reason, None, False, False, HOPELESS))
            return False
        return await self._automatic(found, switch, again=found.repeats_prompt) and found.repeats_prompt

    def _due(self, *, before_prompt: bool) -> CompactionDue | None:
        model = self._owner.models.current
        if model is None:
            return None
        return compaction_due(Branch(self._owner.log.tree), model, self._settings(model), before_prompt=before_prompt)

    async def _automatic(self, found: CompactionDue, switch: AbortSignal, *, again: bool) -> bool:
        """Compact; True on success. With `again` the failed answer is left out, because its prompt is repeated."""
        owner = self._owner
        assert owner.models.current is not None
        settings = self._settings(owner.models.current)
        failed = owner.log.tree.last_answer() if again else None
        plan = plan_compaction(Branch(owner.log.tree, frozenset() if failed is None else frozenset({failed})), settings)
        if isinstance(plan, str) and found.reason == "threshold":
            return False  # full, but nothing can be removed: do not report that after each answer
        await owner.emit(CompactionStart(found.reason))
        result: CompactionResult | None = None
        aborted, error = False, ""
        about = {"reason": found.reason, "willRetry": again}
        try:
            if isinstance(plan, str):
                raise CommandError(plan)
            with self._under_way(switch), self._at_work():
                model = owner.models.ready()
                result = await self._carry_out(plan, settings, model, about, switch, drop_answer=again)
        except Aborted:
            aborted = True
        except TauError as failure:
            error = str(failure)
        except Exception as failure:  # the run continues, whatever happened
            log.exception("an automatic compaction failed in an unforeseen way")
            error = f"{type(failure).__name__}: {failure}"
        again = again and result is not None
        told: str | UnsetType = FAILED[found.reason] + error if error else UNSET
        if result is None:
            await self._tell_failed({**about, "willRetry": False}, error or None)
        await owner.emit(CompactionEnd(found.reason, result, aborted, again, told))
        return result is not None

    # Common to both.

    async def _carry_out(
        self,
        plan: CompactionPlan,
        settings: CompactionSettings,
        model: Model,
        about: About,
        switch: AbortSignal,
        *,
        drop_answer: bool = False,
    ) -> CompactionResult:
        """Make the summary and write the entry. `drop_answer` also removes the last answer from the conversation.

        `about` holds additional fields for the hooks of extensions.
        """
        written, hooks = self._owner.log, self._hooks
        given = None
        if hooks is not None and hooks.extensions.wants("session_before_compact"):
            given = await hooks.before_compact(plan, settings, written.tree, about, switch)
        if given is not None:
            tokens = given.tokens_before or plan.tokens_before
            result = CompactionResult(
                given.summary, given.first_kept_entry_id, tokens, given.details, usage=given.usage
            )
        else:
            requests = plan.requests(settings, model, self._owner.models.level, about.get("customInstructions"))
            answers = [await self._summary(request, model, switch) for request in requests]
            result = CompactionResult(
                plan.summary([text for text, _ in answers]),
                plan.first_kept_entry_id,
                plan.tokens_before,
                plan.details,
                usage=sum_usage([usage for _, usage in answers]),
            )
        if switch.aborted:
            raise Aborted
        made = result.summary, result.first_kept_entry_id, result.tokens_before, result.details
        kept_at = written.tree.find(result.first_kept_entry_id)
        if drop_answer:
            written.drop_last_answer()
        written.compact(*made, from_hook=given is not None, usage=result.usage)
        if hooks is not None and hooks.extensions.wants("session_compact"):
            entry = parse_stored(written.tree.line(written.tree.leaf))
            told = {"compactionEntry": entry, "fromExtension": given is not None, **about}
            await hooks.tell("session_compact", told, switch)
        return replace(
            result,
            estimated_tokens_after=context_tokens(Branch(written.tree)),
            timestamp=iso(),
            first_kept_entry_index=UNSET if kept_at is None else kept_at + 1,  # the header is the first line
        )

    async def _tell_failed(self, about: About, error: str | None) -> None:
        if self._hooks is not None:
            told = {**about, "aborted": error is None, "fromExtension": False}
            await self._hooks.tell("session_compact_failed", told if error is None else {**told, "errorMessage": error})

    async def _summary(self, request: SummaryRequest, model: Model, switch: AbortSignal) -> tuple[str, Usage]:
        """Return the answer to one request and its usage; failures are retried as the retry policy says.

        Raises ModelError or Aborted.
        """
        made = 0
        while True:
            draft = Draft(model, now(), PartialJson)
            ending = await until_aborted(asyncio.create_task(self._ask(request, draft)), switch, ABORT_GRACE_S)
            if switch.aborted:
                raise Aborted
            if isinstance(ending, MessageDone):
                try:
                    return summary_text(ending.message), ending.message.usage
                except ModelError as error:
                    raise ModelError(f"{request.title} failed: {error}", transient=False) from None
            retry = next_retry(ending, self._owner.settings.retry, made)
            if retry is None:
                raise ModelError(f"{request.title} failed: {ending.message.error_message}", transient=False)
            if await switch.wait(retry.delay_ms / 1000):
                raise Aborted
            made = retry.attempt

    async def _ask(self, request: SummaryRequest, draft: Draft) -> MessageDone | MessageFailed:
        last: Any = None
        try:
            async for facts in self._owner.stream_summary(request, draft):
                last = facts[-1] if facts else last
        except ModelError as error:
            return draft.fail("error", str(error), transient=error.transient, retry_after_ms=error.retry_after_ms)
        if isinstance(last, MessageDone):
            return last
        return draft.fail("error", "The stream ended before the answer was complete.", transient=True)

    def _settings(self, model: Model) -> CompactionSettings:
        return settings_for_window(self._owner.settings.compaction, model.context_window)

    @contextmanager
    def _under_way(self, switch: AbortSignal) -> Iterator[AbortSignal]:
        self._wanted[switch] = end = asyncio.Event()
        try:
            yield switch
        finally:
            del self._wanted[switch]
            end.set()

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        self._working += 1
        try:
            yield
        finally:
            self._working -= 1


def _raising(error: TauError) -> Callable[[], Awaitable[CompactionResult]]:
    async def refuse() -> CompactionResult:
        raise error

    return refuse
