"""How much a prompt may take."""

from __future__ import annotations

from tau.records.base import Record


class Budget(Record):
    """Limits for each prompt; null is none. `timeLimit` is in seconds, `maxCost` in dollars.

    `maxTokens` counts what was sent and what was answered, in all turns together.
    Where nobody knows what the model costs, `maxCost` is refused unless
    `allowUnknownCost` is set: such answers then count as free.
    """

    max_turns: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    time_limit: float | None = None
    allow_unknown_cost: bool = False
