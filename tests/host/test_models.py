from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tau.core.matching import Match
from tau.errors import CommandError, UsageError
from tau.host.models import Models
from tau.llm.catalog import DEMO, SCRIPTED
from tau.records.models import Model
from tau.records.settings import Settings
from tau.store.keys import Keys


def model(provider: str, id: str, reasoning: bool = True) -> Model:
    return Model(id, id, "anthropic-messages", provider, "", reasoning=reasoning)


HAIKU = model("anthropic", "claude-haiku-4-5")
OPUS = model("anthropic", "claude-opus-4-5")
LAB = model("lab", "m-1", reasoning=False)
LAB_TWO = model("lab", "m-2")
KNOWN = [HAIKU, OPUS, LAB, LAB_TWO]


def models(*with_key: str) -> Models:
    """The models of a user who has keys for these providers."""
    keys = Keys(Path("/nonexistent/auth.json"), {})
    keys.configured = dict.fromkeys(with_key, "sk-key")
    return Models(KNOWN, keys)


def chosen(*with_key: str, **wishes: Any) -> Models:
    found = models(*with_key)
    assert found.choose(wishes.pop("settings", Settings()), **wishes) == []
    return found


# What a session starts with.


def test_without_a_key_there_is_no_model_and_no_demo_in_its_place() -> None:
    found = chosen()
    assert (found.current, found.level, found.available) == (None, "off", [])
    with pytest.raises(CommandError, match="No model selected") as caught:
        found.ready()
    assert "ANTHROPIC_API_KEY" in str(caught.value) and "--model demo" in str(caught.value)


def test_only_models_with_a_key_are_available() -> None:
    assert models("lab").available == [LAB, LAB_TWO]
    assert models("lab", "anthropic").available == KNOWN


@pytest.mark.parametrize(
    ("keys", "settings", "expected"),
    [
        (("anthropic", "lab"), Settings(), OPUS),
        (("lab",), Settings(), LAB),
        (("anthropic", "lab"), Settings(default_provider="lab", default_model="m-2"), LAB_TWO),
        (("anthropic", "lab"), Settings(default_model="m-2"), LAB_TWO),
        (("anthropic",), Settings(default_provider="lab", default_model="m-2"), OPUS),
        ((), Settings(default_provider="tau", default_model="demo"), DEMO),
        (("anthropic",), Settings(enabled_models=["haiku"]), HAIKU),
        (("anthropic",), Settings(enabled_models=["haiku", "opus"], default_model="x"), HAIKU),
        (
            ("anthropic",),
            Settings(enabled_models=["haiku", "opus"], default_provider="anthropic", default_model="claude-opus-4-5"),
            OPUS,
        ),
    ],
)
def test_without_a_wish_the_saved_model_is_taken_or_the_usual_one(
    keys: tuple[str, ...], settings: Settings, expected: Model
) -> None:
    assert chosen(*keys, settings=settings).current == expected


@pytest.mark.parametrize(
    ("wishes", "expected"),
    [
        ({"pattern": "m-2"}, LAB_TWO),
        ({"pattern": "demo"}, DEMO),
        ({"pattern": "scripted"}, SCRIPTED),
        ({"provider": "anthropic"}, OPUS),
        ({"provider": "lab"}, LAB),
        ({"provider": "LAB"}, LAB),
        ({"provider": "tau"}, DEMO),
        ({"provider": "lab", "pattern": "2"}, LAB_TWO),
    ],
)
def test_a_model_that_is_asked_for_is_taken_with_or_without_a_key(wishes: dict[str, str], expected: Model) -> None:
    assert chosen(**wishes).current == expected


@pytest.mark.parametrize(
    ("wishes", "error"),
    [
        ({"pattern": "zork"}, 'Model "zork" not found. Use --list-models to see available models.'),
        (
            {"pattern": "zork", "provider": "lab"},
            'Model "lab/zork" not found. Use --list-models to see available models.',
        ),
        ({"provider": "zork"}, 'Unknown provider "zork". Use --list-models to see available providers/models.'),
    ],
)
def test_a_model_that_does_not_exist_is_an_error(wishes: dict[str, str], error: str) -> None:
    with pytest.raises(UsageError) as caught:
        models().choose(Settings(), **wishes)  # type: ignore[arg-type]
    assert str(caught.value) == error


@pytest.mark.parametrize(
    ("wishes", "settings", "level"),
    [
        ({"pattern": "opus"}, Settings(), "medium"),
        ({"pattern": "opus"}, Settings(default_thinking_level="low"), "low"),
        ({"pattern": "opus:high"}, Settings(default_thinking_level="low"), "high"),
        ({"pattern": "opus:high", "level": "minimal"}, Settings(), "minimal"),
        ({"pattern": "opus", "level": "max"}, Settings(), "high"),
        ({"pattern": "m-1", "level": "high"}, Settings(), "off"),
        ({"scoped": ["opus:low"]}, Settings(), "low"),
    ],
)
def test_the_level_is_the_one_asked_for_as_far_as_the_model_has_it(
    wishes: dict[str, Any], settings: Settings, level: str
) -> None:
    assert chosen("anthropic", settings=settings, **wishes).level == level


def test_patterns_that_match_nothing_are_warned_of() -> None:
    found = models("anthropic")
    assert found.choose(Settings(), scoped=["opus", "zork"]) == ['No models match pattern "zork"']
    assert (found.scoped, found.current) == ([Match(OPUS)], OPUS)


# Changing it.


def test_a_model_is_set_by_provider_and_id() -> None:
    found = chosen("anthropic", "lab")
    assert (found.set("lab", "m-1"), found.current, found.level) == (LAB, LAB, "off")
    assert found.set("tau", "demo") == DEMO


@pytest.mark.parametrize(("provider", "id"), [("lab", "m-1"), ("anthropic", "zork")])
def test_a_model_without_a_key_or_that_does_not_exist_cannot_be_set(provider: str, id: str) -> None:
    found = chosen("anthropic")
    with pytest.raises(CommandError, match=f"Model not found: {provider}/{id}"):
        found.set(provider, id)
    assert found.current == OPUS


def test_an_offline_model_is_listed_only_while_it_is_on() -> None:
    found = chosen("lab", pattern="demo")
    assert found.available == [LAB, LAB_TWO, DEMO]
    found.set("lab", "m-1")
    assert found.available == [LAB, LAB_TWO]


def test_cycling_goes_through_the_available_models_and_round() -> None:
    found = chosen("anthropic", "lab")
    assert [found.cycle() for _ in range(4)] == [LAB, LAB_TWO, HAIKU, OPUS]


def test_cycling_goes_through_the_scoped_models_with_their_levels() -> None:
    found = chosen("anthropic", "lab", scoped=["opus:low", "m-2:high"])
    assert [(found.cycle(), found.level) for _ in range(2)] == [(LAB_TWO, "high"), (OPUS, "low")]


def test_there_is_nothing_to_cycle_with_one_model() -> None:
    assert (chosen(pattern="demo").cycle(), chosen("anthropic", scoped=["opus"]).cycle()) == (None, None)


def test_levels_can_be_set_and_cycled_as_far_as_the_model_has_them() -> None:
    found = chosen("anthropic")
    found.set_level("max")
    assert (found.level, found.cycle_level(), found.level) == ("high", "off", "off")
    assert found.levels == ["off", "minimal", "low", "medium", "high"]
    found = chosen("lab")
    found.set_level("high")
    assert (found.level, found.cycle_level(), found.levels) == ("off", None, ["off"])


def test_a_model_without_a_key_cannot_be_asked() -> None:
    with pytest.raises(CommandError, match="No API key found for lab"):
        chosen(pattern="m-1").ready()
    assert chosen("lab", pattern="m-1").ready() == LAB
    assert chosen(pattern="demo").ready() == DEMO
