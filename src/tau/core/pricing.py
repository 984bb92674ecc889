"""Usage to cost."""

from __future__ import annotations

from tau.records.base import replace
from tau.records.messages import Usage, UsageCost
from tau.records.models import Price


def priced(usage: Usage, price: Price) -> Usage:
    """`usage` with its cost and its total: price per million times tokens, summed."""
    parts = (
        price.input / 1_000_000 * usage.input,
        price.output / 1_000_000 * usage.output,
        price.cache_read / 1_000_000 * usage.cache_read,
        price.cache_write / 1_000_000 * usage.cache_write,
    )
    total = usage.total_tokens or usage.input + usage.output + usage.cache_read + usage.cache_write
    return replace(usage, total_tokens=total, cost=UsageCost(*parts, sum(parts)))
