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
from typing import TYPE_CHECKING, Any, Protocol

from tau.core.conversation.branches import Branch, plan_branch_summary
from tau.core.conversation.compaction import (
    CompactionDue,
    CompactionPlan,
    CompactionReason,
    compaction_due,
    plan_compaction,
    settings_for_window,
)
from tau.core.conversation.summaries import NO_CONTENT, SummaryRequest
from tau.core.conversation.tokens import TreeEntry, context_tokens, sum_usage
from tau.core.conversation.tree import Tree
from tau.errors import Aborted, CommandError, ModelError, TauError
from tau.records.base import UNSET, UnsetType, Value, parse_stored, replace
from tau.records.events import CompactionEnd, CompactionResult, CompactionStart, EntryAppended, Event
from tau.records.messages import Usage
from tau.records.models import Model, ThinkingLevel
from tau.records.settings import CompactionSettings
from tau.runtime.abort import AbortSignal
from tau.runtime.clock import iso
from tau.runtime.extensions.hooks import HookDispatcher

if TYPE_CHECKING:
    from tau.runtime.runs.summaries import SummaryModel

logger = logging.getLogger(__name__)

HookFields = Mapping[str, Any]
MANUAL: HookFields = {"reason": "manual", "willRetry": False}

CANCELLED = "Compaction cancelled"
RECOVERY_FAILED = (
    "Context overflow recovery failed after one compact-and-retry attempt. "
    "Try reducing context or switching to a larger-context model."
)
FAILURE_PREFIX: dict[CompactionReason, str] = {
    "threshold": "Auto-compaction failed: ",
    "overflow": "Context overflow recovery failed: ",
}


if TYPE_CHECKING:

    class ModelChoice(Protocol):
        """The models of a session (runtime/models/selection.py)."""

        current: Model | None
        level: ThinkingLevel

        def ready(self) -> Model: ...

    class CompactionLog(Protocol):
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

        def drop_last_answer(self) -> EntryAppended | None: ...

    class Owner(SummaryModel, Protocol):
        """The parts of a session that a compaction needs."""

        @property
        def models(self) -> ModelChoice: ...

        @property
        def log(self) -> CompactionLog: ...

        async def emit(self, event: Event) -> None: ...


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
        self._active: dict[AbortSignal, asyncio.Event] = {}  # compactions that run or wait for `turn`, with their ends
        self.working = 0  # number of summaries that are being made

    @property
    def busy(self) -> bool:
        """True while a summary is being made."""
        return self.working > 0

    async def abort(self) -> None:
        """Abort every compaction, and return when they have stopped. Later ones are not waited for.

        The abort signal of a run also stops the compaction inside the run.
        """
        active = list(self._active.items())
        for signal, _ in active:
            signal.abort()
        for _, end in active:
            await end.wait()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[AbortSignal]:
        """Abort the current run and hold `turn`. `abort` aborts the signal that this yields."""
        with self._tracked(AbortSignal()) as signal:
            self._stop_run()
            async with self.turn:
                yield signal

    # Manual compactions.

    async def compact(self, instructions: str | None = None) -> CompactionResult:
        """Abort the current run and compact. Raises CommandError; a refused compaction does not abort the run."""
        try:
            with self._tracked(AbortSignal()) as signal:
                async with self._manual:
                    return await self._compact_alone(instructions, signal)
        except Aborted:
            await self._notify_failed(MANUAL, None)
            raise CommandError(CANCELLED) from None
        except TauError as error:
            await self._notify_failed(MANUAL, str(error))
            raise CommandError(str(error)) from None
        except Exception as error:
            await self._notify_failed(MANUAL, str(error))
            raise

    async def _compact_alone(self, instructions: str | None, signal: AbortSignal) -> CompactionResult:
        try:
            if signal.aborted:
                raise Aborted
            self._plan()
        except TauError as error:
            return await self._report_manual(_raise_later(error))
        self._stop_run()
        async with self.turn:
            return await self._report_manual(lambda: self._compact(instructions, signal))

    async def _report_manual(self, work: Callable[[], Awaitable[CompactionResult]]) -> CompactionResult:
        """Emit compaction_start and exactly one compaction_end for a manual compaction, however it ends."""
        emit = self._owner.emit
        await emit(CompactionStart("manual"))
        try:
            result = await work()
        except Aborted:
            await emit(CompactionEnd("manual", None, True, False))
            raise
        except Exception as error:
            await emit(CompactionEnd("manual", None, False, False, f"Compaction failed: {error}"))
            raise
        await emit(CompactionEnd("manual", result, False, False))
        return result

    def _plan(self) -> tuple[CompactionPlan, CompactionSettings, Model]:
        """Plan a compaction. Raises CommandError if there is nothing to compact, or no usable model."""
        model = self._owner.models.ready()
        settings = self._settings(model)
        short = self._owner.settings.compat.compact_short
        plan = plan_compaction(Branch(self._owner.log.tree), settings, short=short)
        if isinstance(plan, str):
            raise CommandError(plan)
        return plan, settings, model

    async def _compact(self, instructions: str | None, signal: AbortSignal) -> CompactionResult:
        plan, settings, model = self._plan()
        with self._counted():
            hook_fields = MANUAL if instructions is None else {**MANUAL, "customInstructions": instructions}
            return await self._compact_by(plan, settings, model, hook_fields, signal)

    async def branch_summary(
        self,
        entries: Sequence[TreeEntry],
        signal: AbortSignal,
        instructions: str | None = None,
        *,
        replace: bool = False,
    ) -> BranchText:
        """Summarize a branch that is being left. Call it inside `alone`; raises Aborted or CommandError."""
        model, level = self._owner.models.ready(), self._owner.models.level
        reserve = max(0, self._owner.settings.branch_summary.reserve_tokens)
        plan = plan_branch_summary(entries, model.context_window, reserve)
        if not plan.messages:
            return BranchText(NO_CONTENT, plan.files.details)
        request = plan.request(model, level, reserve, instructions, replace=replace)
        with self._counted():
            try:
                answer, usage = await self._summarize(request, model, signal)
            except ModelError as error:
                raise CommandError(str(error)) from None
        return BranchText(plan.summary(answer), plan.files.details, usage)

    # Automatic compactions, called by a run that holds `turn`.

    async def before_prompt(self, signal: AbortSignal) -> None:
        """Compact if needed before an accepted prompt is run."""
        due = self._due(before_prompt=True)
        if due is not None and not due.tried and not signal.aborted:
            await self._automatic(due, signal, repeat_prompt=False)

    async def between_turns(self, signal: AbortSignal) -> bool:
        """Compact if needed before the next model call of a run. True if the conversation has changed."""
        if signal.aborted or not self._owner.settings.compaction.between_turns:
            return False
        due = self._due(before_prompt=False)
        return due is not None and not due.tried and await self._automatic(due, signal, repeat_prompt=False)

    async def after_run(self, signal: AbortSignal) -> bool:
        """Compact if needed after a run that will not be retried. True if its prompt fits now and is repeated."""
        due = None if signal.aborted else self._due(before_prompt=False)
        if due is None:
            return False
        if due.tried:
            await self._owner.emit(CompactionEnd(due.reason, None, False, False, RECOVERY_FAILED))
            return False
        return await self._automatic(due, signal, repeat_prompt=due.repeats_prompt) and due.repeats_prompt

    def _due(self, *, before_prompt: bool) -> CompactionDue | None:
        model = self._owner.models.current
        if model is None:
            return None
        return compaction_due(Branch(self._owner.log.tree), model, self._settings(model), before_prompt=before_prompt)

    async def _automatic(self, due: CompactionDue, signal: AbortSignal, *, repeat_prompt: bool) -> bool:
        """Compact; True on success. With `repeat_prompt` the failed answer is left out."""
        owner = self._owner
        assert owner.models.current is not None
        settings = self._settings(owner.models.current)
        failed = owner.log.tree.last_answer() if repeat_prompt else None
        plan = plan_compaction(Branch(owner.log.tree, frozenset() if failed is None else frozenset({failed})), settings)
        if isinstance(plan, str) and due.reason == "threshold":
            return False  # full, but nothing can be removed: do not report that after each answer
        await owner.emit(CompactionStart(due.reason))
        result: CompactionResult | None = None
        aborted, error = False, ""
        hook_fields = {"reason": due.reason, "willRetry": repeat_prompt}
        try:
            if isinstance(plan, str):
                raise CommandError(plan)
            with self._tracked(signal), self._counted():
                model = owner.models.ready()
                result = await self._compact_by(plan, settings, model, hook_fields, signal, drop_answer=repeat_prompt)
        except Aborted:
            aborted = True
        except TauError as failure:
            error = str(failure)
        except Exception as failure:  # the run continues, whatever happened
            logger.exception("an automatic compaction failed in an unforeseen way")
            error = f"{type(failure).__name__}: {failure}"
        repeat_prompt = repeat_prompt and result is not None
        message: str | UnsetType = FAILURE_PREFIX[due.reason] + error if error else UNSET
        if result is None:
            await self._notify_failed({**hook_fields, "willRetry": False}, error or None)
        await owner.emit(CompactionEnd(due.reason, result, aborted, repeat_prompt, message))
        return result is not None

    # Common to both.

    async def _compact_by(
        self,
        plan: CompactionPlan,
        settings: CompactionSettings,
        model: Model,
        hook_fields: HookFields,
        signal: AbortSignal,
        *,
        drop_answer: bool = False,
    ) -> CompactionResult:
        """Make the summary and write the entry. `drop_answer` also removes the last answer from the conversation.

        `hook_fields` holds additional fields for the hooks of extensions.
        """
        session_log, hooks = self._owner.log, self._hooks
        result = await self._ask_extensions(plan, settings, hook_fields, signal)
        from_extension = result is not None
        if result is None:
            result = await self._ask_model(plan, settings, model, hook_fields, signal)
        if signal.aborted:
            raise Aborted
        kept_at = session_log.tree.find(result.first_kept_entry_id)
        if drop_answer and (edit := session_log.drop_last_answer()) is not None:
            await self._owner.emit(edit)
        session_log.compact(
            result.summary,
            result.first_kept_entry_id,
            result.tokens_before,
            result.details,
            from_hook=from_extension,
            usage=result.usage,
        )
        if hooks is not None and hooks.extensions.wants("session_compact"):
            entry = parse_stored(session_log.tree.line(session_log.tree.leaf))
            payload = {"compactionEntry": entry, "fromExtension": from_extension, **hook_fields}
            await hooks.tell("session_compact", payload, signal)
        return replace(
            result,
            estimated_tokens_after=context_tokens(Branch(session_log.tree)),
            timestamp=iso(),
            first_kept_entry_index=UNSET if kept_at is None else kept_at + 1,  # the header is the first line
        )

    async def _ask_extensions(
        self, plan: CompactionPlan, settings: CompactionSettings, hook_fields: HookFields, signal: AbortSignal
    ) -> CompactionResult | None:
        if self._hooks is None or not self._hooks.extensions.wants("session_before_compact"):
            return None
        given = await self._hooks.before_compact(plan, settings, self._owner.log.tree, hook_fields, signal)
        if given is None:
            return None
        tokens = given.tokens_before or plan.tokens_before
        return CompactionResult(given.summary, given.first_kept_entry_id, tokens, given.details, usage=given.usage)

    async def _summarize(self, request: SummaryRequest, model: Model, signal: AbortSignal) -> tuple[str, Usage]:
        from tau.runtime.runs.summaries import summarize

        return await summarize(self._owner, request, model, signal)

    async def _ask_model(
        self,
        plan: CompactionPlan,
        settings: CompactionSettings,
        model: Model,
        hook_fields: HookFields,
        signal: AbortSignal,
    ) -> CompactionResult:
        requests = plan.requests(settings, model, self._owner.models.level, hook_fields.get("customInstructions"))
        answers = [await self._summarize(request, model, signal) for request in requests]
        return CompactionResult(
            plan.summary([text for text, _ in answers]),
            plan.first_kept_entry_id,
            plan.tokens_before,
            plan.details,
            usage=sum_usage([usage for _, usage in answers]),
        )

    async def _notify_failed(self, hook_fields: HookFields, error: str | None) -> None:
        if self._hooks is not None:
            payload = {**hook_fields, "aborted": error is None, "fromExtension": False}
            if error is not None:
                payload["errorMessage"] = error
            await self._hooks.tell("session_compact_failed", payload)

    def _settings(self, model: Model) -> CompactionSettings:
        return settings_for_window(self._owner.settings.compaction, model.context_window)

    @contextmanager
    def _tracked(self, signal: AbortSignal) -> Iterator[AbortSignal]:
        self._active[signal] = end = asyncio.Event()
        try:
            yield signal
        finally:
            del self._active[signal]
            end.set()

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self.working += 1
        try:
            yield
        finally:
            self.working -= 1


def _raise_later(error: TauError) -> Callable[[], Awaitable[CompactionResult]]:
    async def refuse() -> CompactionResult:
        raise error

    return refuse
