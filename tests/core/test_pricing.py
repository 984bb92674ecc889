from __future__ import annotations

import pytest

from tau.core.models.pricing import priced, unpriced
from tau.records.messages import Usage, UsageCost
from tau.records.models import Model, Price, PriceTier


def test_tokens_cost_their_price_per_million() -> None:
    usage = priced(Usage(1_000_000, 500_000, 2_000_000, 100_000), Price(3, 15, 0.3, 3.75))
    assert usage == Usage(1_000_000, 500_000, 2_000_000, 100_000, 3_600_000, UsageCost(3, 7.5, 0.6, 0.375, 11.475))


def test_a_total_the_provider_gave_is_kept() -> None:
    assert priced(Usage(1, 2, total_tokens=50), Price()).total_tokens == 50


def test_what_is_free_costs_nothing() -> None:
    assert priced(Usage(1, 2, 3, 4), Price()) == Usage(1, 2, 3, 4, 10, UsageCost())


TIERS = Price(1, 10, 0.1, 0, [PriceTier(200, 2, 20, 0.2), PriceTier(100, 1.5, 15, 0.15)])


@pytest.mark.parametrize(
    ("usage", "total"),
    [
        (Usage(100, 1), 100 * 1 + 1 * 10),
        (Usage(101, 1), 101 * 1.5 + 1 * 15),
        (Usage(100, 1, 101), 100 * 2 + 1 * 20 + 101 * 0.2),
        (Usage(0, 1, 0, 300), 1 * 20),
    ],
)
def test_a_long_request_is_paid_whole_by_its_tier(usage: Usage, total: float) -> None:
    assert priced(usage, TIERS).cost.total == pytest.approx(total / 1e6)


@pytest.mark.parametrize(
    ("model", "unknown"),
    [
        (Model("m", "m", "openai-completions", "lab", "https://lab"), True),
        (Model("m", "m", "openai-completions", "lab", "https://lab", cost=Price(output=1)), False),
        (Model("m:free", "m", "openai-completions", "openrouter", "https://lab"), False),
        (Model("m", "m", "openai-completions", "ollama", "http://127.0.0.1:11434/v1"), False),
        (Model("m", "m", "openai-completions", "lab", "http://localhost/v1"), False),
        (Model("m", "m", "scripted", "scripted", ""), False),
        (Model("m", "m", "demo", "tau", ""), False),
    ],
)
def test_no_price_is_unknown_unless_something_says_that_it_is_free(model: Model, unknown: bool) -> None:
    assert unpriced(model) is unknown
