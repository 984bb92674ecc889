"""Compute the cost of usage, and tell whether a model's price is known."""

from __future__ import annotations

from tau.records.base import replace
from tau.records.messages import Usage, UsageCost
from tau.records.models import Model, Price, PriceTier

# APIs that answer without a network.
OFFLINE_APIS = {"demo", "scripted"}
LOCAL_HOSTS = ("://127.", "://localhost", "://[::1]")


def priced(usage: Usage, price: Price) -> Usage:
    """`usage` with cost and total: price per million times tokens, summed."""
    rate = _rate(usage, price)
    parts = (
        rate.input / 1_000_000 * usage.input,
        rate.output / 1_000_000 * usage.output,
        rate.cache_read / 1_000_000 * usage.cache_read,
        rate.cache_write / 1_000_000 * usage.cache_write,
    )
    total = usage.total_tokens or usage.input + usage.output + usage.cache_read + usage.cache_write
    return replace(usage, total_tokens=total, cost=UsageCost(*parts, sum(parts)))


def _rate(usage: Usage, price: Price) -> Price | PriceTier:
    """The whole request is charged at the highest tier that its input reaches."""
    sent = usage.input + usage.cache_read + usage.cache_write
    reached = [tier for tier in price.tiers or () if sent > tier.input_tokens_above]
    return max(reached, key=lambda tier: tier.input_tokens_above, default=price)


def unpriced(model: Model) -> bool:
    """True if the price of `model` is unknown: no price is set, and nothing indicates that it is free."""
    price = model.cost
    if price.input or price.output or price.cache_read or price.cache_write:
        return False
    free = model.api in OFFLINE_APIS or model.id.endswith((":free", "-free"))
    return not free and not any(here in model.base_url for here in LOCAL_HOSTS)
