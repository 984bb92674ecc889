"""Enforcement of budgets: tracks the usage of a prompt and its failures, and aborts it when a limit is reached.

The decisions are in core/agent/budgets.py. This module adds the clock and the abort signal of the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tau.core.agent.budgets import (
    NO_BUDGET,
    NO_STREAK,
    Spent,
    budget_exceeded,
    budget_problem,
    exceeded_before_turn,
    exceeded_while_streaming,
    limit_text,
    stuck,
    unknown_cost_error,
)
from tau.core.agent.draft import Draft
from tau.core.agent.tool_results import ToolDone
from tau.core.models.pricing import price_unknown
from tau.errors import CommandError
from tau.records.budgets import Budget
from tau.records.events import BudgetExceeded
from tau.runtime.abort import AbortSignal
from tau.runtime.models.selection import ModelSelection


class BudgetTracker:
    def __init__(self, models: ModelSelection, limits: Budget = NO_BUDGET) -> None:
        self._models = models
        self._limits = limits
        self._signal: AbortSignal | None = None  # of the current prompt
        self._timer: asyncio.TimerHandle | None = None
        self._began = 0.0
        self._streak = NO_STREAK
        self._stuck_after = 0
        self.spent = Spent()
        self.exceeded_limit: BudgetExceeded | None = None

    @property
    def limits(self) -> Budget:
        return self._limits

    def set(self, limits: Budget) -> None:
        """Set the limits for every prompt from now on, including the current one. Raises CommandError."""
        if (problem := budget_problem(limits) or unknown_cost_error(limits, self._models.current)) is not None:
            raise CommandError(problem)
        self._limits = limits
        if self._signal is not None:
            self._set_timer()

    def check_model(self) -> None:
        """Raise CommandError if the limits cannot be enforced for the model, which may have changed since."""
        if (problem := unknown_cost_error(self._limits, self._models.current)) is not None:
            raise CommandError(problem)

    # While a prompt runs.

    def begin(self, signal: AbortSignal, stuck_after: int) -> None:
        self._signal, self.spent, self.exceeded_limit = signal, Spent(), None
        self._streak, self._stuck_after = NO_STREAK, stuck_after
        self._began = asyncio.get_running_loop().time()
        self._set_timer()

    def end(self) -> None:
        self._signal = None
        self._stop_timer()

    def count_turn(self) -> None:
        self.spent = Spent(self.spent.turns + 1, self.spent.tokens, self.spent.cost, self.spent.cost_unknown)

    @property
    def limits_tokens(self) -> bool:
        """True if `check_streamed` must be called."""
        return self._limits.max_tokens is not None

    def check_streamed(self, draft: Draft, characters: int) -> None:
        """Check the limits after a delta of an answer, and abort the run if one is exceeded."""
        if exceeded := exceeded_while_streaming(self._limits, self.spent, draft.usage, characters):
            self._stop_run(exceeded)

    def add_usage(self, draft: Draft) -> None:
        """Add the usage of an answer that has ended, complete or not."""
        self.spent = self.spent.add_usage(draft.usage, unpriced=price_unknown(draft.model))

    def allows_turn(self) -> bool:
        """True if another turn may start."""
        if self.exceeded_limit is None:
            self.exceeded_limit = exceeded_before_turn(self._limits, self.spent, self._seconds)
        return self.exceeded_limit is None

    def follow(self, done: Sequence[ToolDone]) -> None:
        """Follow the results of tool calls, and abort the run if the last answers only repeated a failure."""
        self._streak = self._streak.after(done)
        if (exceeded := stuck(self._streak, self._stuck_after)) is not None:
            self._stop_run(exceeded)

    def forget_failures(self) -> None:
        """Count failures anew, because the model gets another message."""
        self._streak = NO_STREAK

    @property
    def _seconds(self) -> float:
        return asyncio.get_running_loop().time() - self._began

    def _stop_run(self, exceeded: BudgetExceeded) -> None:
        if self._signal is None or self._signal.aborted:
            return
        self.exceeded_limit = self.exceeded_limit or exceeded
        self._signal.abort(limit_text(self.exceeded_limit))

    def _set_timer(self) -> None:
        self._stop_timer()
        if (limit := self._limits.time_limit) is not None:
            seconds_left = max(0.0, limit - self._seconds)
            self._timer = asyncio.get_running_loop().call_later(
                seconds_left, lambda: self._stop_run(budget_exceeded("time", self.spent, self._seconds, limit))
            )

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
