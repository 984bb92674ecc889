"""What prompts may take, kept to: counts while a prompt is worked on, and stops it when a limit is reached.

The decisions are in core/agent/budgets.py. Here is the clock, and the switch of the run.
"""

from __future__ import annotations

import asyncio

from tau.core.agent.budgets import NO_BUDGET, Spent, between_turns, exceeded, in_an_answer, refused, told, wrong
from tau.core.agent.draft import Draft
from tau.core.models.pricing import unpriced
from tau.errors import CommandError
from tau.records.budgets import Budget
from tau.records.events import BudgetExceeded
from tau.runtime.abort import AbortSignal
from tau.runtime.models.selection import ModelSelection


class BudgetTracker:
    def __init__(self, models: ModelSelection) -> None:
        self._models = models
        self._switch: AbortSignal | None = None  # of the prompt under way
        self._timer: asyncio.TimerHandle | None = None
        self._began = 0.0
        self.limits = NO_BUDGET
        self.spent = Spent()
        self.exceeded_limit: BudgetExceeded | None = None

    def set(self, limits: Budget) -> None:
        """For every prompt from now on, and for the one under way. Raises CommandError."""
        if (trouble := wrong(limits) or refused(limits, self._models.current)) is not None:
            raise CommandError(trouble)
        self.limits = limits
        if self._switch is not None:
            self._set_timer()

    def check_model(self) -> None:
        """Whether the model can be asked within the limits; it may have changed since they were set."""
        if (trouble := refused(self.limits, self._models.current)) is not None:
            raise CommandError(trouble)

    # While a prompt is worked on.

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
        """A piece of an answer has come."""
        if over := in_an_answer(self.limits, self.spent, draft.usage, characters):
            self._cut(over)

    def add_usage(self, draft: Draft) -> None:
        """An answer is over, whole or not."""
        self.spent = self.spent.plus(draft.usage, unpriced=unpriced(draft.model))

    def allows_turn(self) -> bool:
        """Whether another turn may begin."""
        if self.exceeded_limit is None:
            self.exceeded_limit = between_turns(self.limits, self.spent, self._seconds)
        return self.exceeded_limit is None

    @property
    def _seconds(self) -> float:
        return asyncio.get_running_loop().time() - self._began

    def _cut(self, over: BudgetExceeded) -> None:
        if self._switch is None or self._switch.aborted:
            return
        self.exceeded_limit = self.exceeded_limit or over
        self._switch.abort(told(self.exceeded_limit))

    def _set_timer(self) -> None:
        self._stop_timer()
        if (limit := self.limits.time_limit) is not None:
            later = max(0.0, limit - self._seconds)
            self._timer = asyncio.get_running_loop().call_later(
                later, lambda: self._cut(exceeded("time", self.spent, self._seconds, limit))
            )

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
