"""Decide whether a prompt has used up its budget, or does not get on.

Between turns any limit can end the prompt: a turn that would exceed a limit is not started. While an answer streams
or a tool runs, only the token and time limits apply. A run that is finished is never failed for what it used: a
budget prevents further work, and there is none left. A `Streak` follows the results of tool calls and finds a model
that repeats one mistake; it ends a prompt as a limit does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tau.core.agent.tool_results import InvalidCall, ToolDone
from tau.core.conversation.tokens import CHARS_PER_TOKEN, usage_tokens
from tau.core.models.pricing import price_unknown
from tau.records.base import UNSET, Value, encode, replace
from tau.records.budgets import Budget
from tau.records.events import BudgetExceeded, Limit
from tau.records.messages import Text, Usage
from tau.records.models import Model

NO_BUDGET = Budget()
UNKNOWN_COST = (
    "The price of {provider}/{id} is unknown, so a cost limit cannot be enforced. "
    "Set its price in models.json, limit tokens instead, or allow unknown cost: its answers then count as free."
)
REASONS: dict[Limit, str] = {
    "turns": "the limit of {0:g} turns was reached",
    "tokens": "the limit of {0:g} tokens was reached",
    "cost": "the limit of ${0:g} was reached",
    "time": "the time limit of {0:g} s was reached",
    "stuck": "the tool calls of {0:g} answers in a row all failed in the same way",
}


class Spent(Value):
    """Usage of a prompt so far. `cost_unknown`: part of it came from a model without a known price."""

    turns: int = 0
    tokens: int = 0
    cost: float = 0.0
    cost_unknown: bool = False

    def add_usage(self, usage: Usage, *, unpriced: bool) -> Spent:
        unknown = unpriced and bool(usage_tokens(usage)) and not usage.cost.total
        return replace(
            self,
            tokens=self.tokens + usage_tokens(usage),
            cost=self.cost + usage.cost.total,
            cost_unknown=self.cost_unknown or unknown,
        )


class Streak(Value):
    """The answers in a row whose tool calls all failed in the same way."""

    answers: int = 0
    failures: frozenset[Any] = frozenset()

    def after(self, done: Sequence[ToolDone]) -> Streak:
        """The streak after an answer with these results."""
        if not done or not all(one.is_error for one in done):
            return NO_STREAK
        failures = frozenset(map(_failure, done))
        return Streak(self.answers + 1 if failures == self.failures else 1, failures)


NO_STREAK = Streak()


def _failure(done: ToolDone) -> Any:
    """How a call failed. Two that ran failed in the same way if name, arguments and error are the same."""
    if isinstance(done.outcome, InvalidCall):
        return InvalidCall
    text = "".join(block.text for block in done.outcome.content if isinstance(block, Text))
    return done.call.name, encode(done.call.arguments), text


def stuck(streak: Streak, allowed: int) -> BudgetExceeded | None:
    """The limit of answers that repeat a failure, if it is reached. 0 means no limit."""
    return BudgetExceeded("stuck", streak.answers, allowed) if 0 < allowed <= streak.answers else None


def budget_problem(budget: Budget) -> str | None:
    """Why a budget is invalid, or None."""
    fields = {
        "maxTurns": budget.max_turns,
        "maxTokens": budget.max_tokens,
        "maxCost": budget.max_cost,
        "timeLimit": budget.time_limit,
    }
    for name, value in fields.items():
        if value is not None and not 0 < value < float("inf"):
            return f"{name}: must be more than 0"
    return None


def unknown_cost_error(budget: Budget, model: Model | None) -> str | None:
    """Why a model cannot be used within this budget, or None."""
    if budget.max_cost is None or budget.allow_unknown_cost or model is None or not price_unknown(model):
        return None
    return UNKNOWN_COST.format(provider=model.provider, id=model.id)


def exceeded_before_turn(budget: Budget, spent: Spent, seconds: float) -> BudgetExceeded | None:
    """The limit that prevents the next turn, or None."""
    known = budget.allow_unknown_cost or not spent.cost_unknown
    reached: tuple[tuple[Limit, float, float | None], ...] = (
        ("turns", spent.turns, budget.max_turns),
        ("tokens", spent.tokens, budget.max_tokens),
        ("cost", spent.cost if known else float("inf"), budget.max_cost),
        ("time", seconds, budget.time_limit),
    )
    for limit, value, allowed in reached:
        if allowed is not None and value >= allowed:
            return budget_exceeded(limit, spent, seconds, allowed)
    return None


def exceeded_while_streaming(budget: Budget, spent: Spent, usage: Usage, characters: int) -> BudgetExceeded | None:
    """The token limit, if the streaming answer exceeds it: by the provider's count, or else estimated by its length."""
    if budget.max_tokens is None:
        return None
    sent = usage.input + usage.cache_read + usage.cache_write
    tokens = spent.tokens + sent + max(usage.output, characters // CHARS_PER_TOKEN)
    return (
        budget_exceeded("tokens", replace(spent, tokens=tokens), 0, budget.max_tokens)
        if tokens > budget.max_tokens
        else None
    )


def budget_exceeded(limit: Limit, spent: Spent, seconds: float, allowed: float) -> BudgetExceeded:
    took = {"turns": spent.turns, "tokens": spent.tokens, "cost": spent.cost, "time": seconds}
    return BudgetExceeded(limit, round(took[limit], 6), allowed, True if spent.cost_unknown else UNSET)


def limit_text(exceeded: BudgetExceeded) -> str:
    """The limit as a sentence, for people and for the model that may read it later."""
    return f"Stopped: {REASONS[exceeded.limit].format(exceeded.allowed)}."
