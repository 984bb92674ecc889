"""Enforcement of budgets: tracks the usage of a prompt and aborts it when a limit is reached.

The decisions are in core/agent/budgets.py. This module adds the clock and the abort signal of the run.
"""

from __future__ import annotations

import asyncio

from tau.core.agent.budgets import (
    NO_BUDGET,
    Spent,
    budget_exceeded,
    budget_problem,
    exceeded_before_turn,
    exceeded_while_streaming,
    limit_text,
    unknown_cost_error,
)
from tau.core.agent.draft import Draft
from tau.core.models.pricing import price_unknown
from tau.errors import CommandError
from tau.records.budgets import Budget
from tau.records.events import BudgetExceeded
from tau.runtime.abort import AbortSignal
from tau.runtime.models.selection import ModelSelection


class BudgetTracker:
    def __init__(self, models: ModelSelection, limits: Budget = NO_BUDGET) -> None:
        self._models = models
        self._switch: AbortSignal | None = None  # of the current prompt
        self._timer: asyncio.TimerHandle | None = None
        self._began = 0.0
        self.limits = limits
        self.spent = Spent()
        self.exceeded_limit: BudgetExceeded | None = None

    def set(self, limits: Budget) -> None:
        """Set the limits for every prompt from now on, including the current one. Raises CommandError."""
        if (trouble := budget_problem(limits) or unknown_cost_error(limits, self._models.current)) is not None:
            raise CommandError(trouble)
        self.limits = limits
        if self._switch is not None:
            self._set_timer()

    def check_model(self) -> None:
        """Raise CommandError if the limits cannot be enforced for the model, which may have changed since."""
        if (trouble := unknown_cost_error(self.limits, self._models.current)) is not None:
            raise CommandError(trouble)

    # While a prompt runs.

    def begin(self, switch: AbortSignal) -> None:
        self._switch, self.spent, self.exceeded_limit = switch, Spent(), None
        self._began = asyncio.get_running_loop().time()
        self._set_timer()

    def end(self) -> None:
        self._switch = None
        self._stop_timer()

    def count_turn(self) -> None:
        self.spent = Spent(self.spent.turns + 1, self.spent.tokens, self.spent.cost, self.spent.cost_unknown)

    def check_streamed(self, draft: Draft, characters: int) -> None:
        """Check the limits after a delta of an answer, and abort the run if one is exceeded."""
        if over := exceeded_while_streaming(self.limits, self.spent, draft.usage, characters):
            self._cut(over)

    def add_usage(self, draft: Draft) -> None:
        """Add the usage of an answer that has ended, complete or not."""
        self.spent = self.spent.add_usage(draft.usage, unpriced=price_unknown(draft.model))

    def allows_turn(self) -> bool:
        """True if another turn may start."""
        if self.exceeded_limit is None:
            self.exceeded_limit = exceeded_before_turn(self.limits, self.spent, self._seconds)
        return self.exceeded_limit is None

    @property
    def _seconds(self) -> float:
        return asyncio.get_running_loop().time() - self._began

    def _cut(self, over: BudgetExceeded) -> None:
        if self._switch is None or self._switch.aborted:
            return
        self.exceeded_limit = self.exceeded_limit or over
        self._switch.abort(limit_text(self.exceeded_limit))

    def _set_timer(self) -> None:
        self._stop_timer()
        if (limit := self.limits.time_limit) is not None:
            later = max(0.0, limit - self._seconds)
            self._timer = asyncio.get_running_loop().call_later(
                later, lambda: self._cut(budget_exceeded("time", self.spent, self._seconds, limit))
            )

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
