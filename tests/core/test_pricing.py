from __future__ import annotations

from tau.core.pricing import priced
from tau.records.messages import Usage, UsageCost
from tau.records.models import Price


def test_tokens_cost_their_price_per_million() -> None:
    usage = priced(Usage(1_000_000, 500_000, 2_000_000, 100_000), Price(3, 15, 0.3, 3.75))
    assert usage == Usage(1_000_000, 500_000, 2_000_000, 100_000, 3_600_000, UsageCost(3, 7.5, 0.6, 0.375, 11.475))


def test_a_total_the_provider_gave_is_kept() -> None:
    assert priced(Usage(1, 2, total_tokens=50), Price()).total_tokens == 50


def test_what_is_free_costs_nothing() -> None:
    assert priced(Usage(1, 2, 3, 4), Price()) == Usage(1, 2, 3, 4, 10, UsageCost())
