"""What an attempt gives the agent: attached files, and of the task's budget what earlier prompts have left."""

from __future__ import annotations

from collections.abc import Sequence

from tau.records.base import replace
from tau.records.budgets import Budget
from tau.records.fleet import Result
from tau.records.messages import Image
from tau.runtime.app.attachments import read_attachment

LEAST_COST = 1e-9
LEAST_SECONDS = 0.001


def read_attachments(files: Sequence[str]) -> tuple[str, list[Image]]:
    """The text before the first prompt, and the images. Raises UsageError."""
    found = [read_attachment(file) for file in files]
    return "".join(text for text, _ in found), [image for _, image in found if image is not None]


def _tokens(result: Result) -> int:
    return result.usage.input + result.usage.output


def used_up(budget: Budget, used: Result) -> str | None:
    """The limit of which nothing is left for another prompt."""
    if budget.max_turns is not None and used.turns >= budget.max_turns:
        return "maxTurns"
    if budget.max_tokens is not None and _tokens(used) >= budget.max_tokens:
        return "maxTokens"
    if budget.max_cost is not None and used.cost >= budget.max_cost:
        return "maxCost"
    return None


def remaining(budget: Budget, used: Result, seconds: float) -> Budget:
    """What is left for the next prompt: tau's budgets are for one prompt, those of a task for all of its prompts."""
    left = replace(budget)
    if budget.max_turns is not None:
        left = replace(left, max_turns=max(1, budget.max_turns - used.turns))
    if budget.max_tokens is not None:
        left = replace(left, max_tokens=max(1, budget.max_tokens - _tokens(used)))
    if budget.max_cost is not None:
        left = replace(left, max_cost=max(LEAST_COST, budget.max_cost - used.cost))
    if budget.time_limit is not None:
        left = replace(left, time_limit=max(LEAST_SECONDS, budget.time_limit - seconds))
    return left
