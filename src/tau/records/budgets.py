"""The budget of a prompt: limits on turns, tokens, cost and time."""

from __future__ import annotations

from tau.records.base import Record


class Budget(Record):
    """Limits for each prompt; null means no limit. `timeLimit` is in seconds, `maxCost` in dollars.

    `maxTokens` counts input and output tokens of all turns together. If the price of the model is not known,
    `maxCost` is refused unless `allowUnknownCost` is set; answers of such a model then count as free.
    """

    max_turns: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    time_limit: float | None = None
    allow_unknown_cost: bool = False
