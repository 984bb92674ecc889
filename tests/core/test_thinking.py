from __future__ import annotations

import pytest

from support.loop_kit import MODEL
from tau.core.models.thinking import clamp, level_value, next_level, supported_levels
from tau.records.base import replace
from tau.records.models import THINKING_LEVELS, Model, ThinkingLevel

USUAL = ["off", "minimal", "low", "medium", "high"]
PLAIN = replace(MODEL, reasoning=False)
DEEP = replace(MODEL, thinking_level_map={"minimal": None, "xhigh": "max"})
ALWAYS = replace(MODEL, thinking_level_map={"off": None})
MUTE = replace(MODEL, thinking_level_map=dict.fromkeys(USUAL))


@pytest.mark.parametrize(
    ("model", "offered"),
    [
        (None, ["off"]),
        (PLAIN, ["off"]),
        (MODEL, USUAL),
        (DEEP, ["off", "low", "medium", "high", "xhigh"]),
        (ALWAYS, ["minimal", "low", "medium", "high"]),
    ],
)
def test_a_model_offers_the_usual_levels_unless_it_says_otherwise(model: Model | None, offered: list[str]) -> None:
    assert supported_levels(model) == offered


@pytest.mark.parametrize(
    ("level", "model", "nearest"),
    [
        ("high", MODEL, "high"),
        ("xhigh", MODEL, "high"),
        ("max", DEEP, "xhigh"),
        ("minimal", DEEP, "low"),
        ("off", ALWAYS, "minimal"),
        ("high", PLAIN, "off"),
        ("high", None, "off"),
    ],
)
def test_a_level_that_is_not_offered_becomes_the_nearest(
    level: ThinkingLevel, model: Model | None, nearest: ThinkingLevel
) -> None:
    assert clamp(level, model) == nearest


@pytest.mark.parametrize("level", THINKING_LEVELS)
def test_a_model_that_hides_every_level_does_not_think(level: ThinkingLevel) -> None:
    assert (clamp(level, MUTE), next_level(level, MUTE)) == ("off", None)


def test_levels_go_round() -> None:
    assert [next_level(level, MODEL) for level in USUAL] == ["minimal", "low", "medium", "high", "off"]  # type: ignore[arg-type]
    assert next_level("max", DEEP) == "off"


def test_there_is_nothing_to_go_round_when_a_model_does_not_think() -> None:
    assert (next_level("off", PLAIN), next_level("off", None)) == (None, None)


@pytest.mark.parametrize(
    ("level", "told"), [("off", None), ("low", "little"), ("minimal", None), ("xhigh", "max"), ("max", None)]
)
def test_a_level_is_reported_by_the_word_of_the_model_or_by_the_usual_one(
    level: ThinkingLevel, told: str | None
) -> None:
    assert level_value(level, DEEP, {"low": "little", "minimal": "least", "xhigh": "high"}) == told
