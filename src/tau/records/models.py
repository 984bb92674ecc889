"""Models, prices and thinking levels."""

# Without `from __future__ import annotations`: msgspec would compile each annotation of what every start decodes.
from typing import Any, Literal

from tau.records.base import UNSET, Record, UnsetType, field

ThinkingLevel = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"]
THINKING_LEVELS: tuple[ThinkingLevel, ...] = ("off", "minimal", "low", "medium", "high", "xhigh", "max")


class PriceTier(Record):
    """Prices in dollars per million tokens for requests with more than `inputTokensAbove` input tokens."""

    input_tokens_above: int
    input: float = 0
    output: float = 0
    cache_read: float = 0
    cache_write: float = 0


class Price(Record):
    """Prices in dollars per million tokens. `tiers` hold other prices for long requests."""

    input: float = 0
    output: float = 0
    cache_read: float = 0
    cache_write: float = 0
    tiers: list[PriceTier] | UnsetType = UNSET


class Model(Record):
    """A model of a provider. `api` is the protocol that the provider speaks."""

    id: str
    name: str
    api: str
    provider: str
    base_url: str
    reasoning: bool = False
    input: list[Literal["text", "image"]] = field(default_factory=lambda: ["text"])
    cost: Price = Price()
    context_window: int = 128000
    max_tokens: int = 16384
    headers: dict[str, str] | UnsetType = UNSET
    compat: dict[str, Any] | UnsetType = UNSET
    thinking_level_map: dict[str, str | None] | UnsetType = UNSET
