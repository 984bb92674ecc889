from __future__ import annotations

import pytest

from tau.core.models.patterns import Match, Several, as_level, exact, find, scope
from tau.records.models import Model


def model(provider: str, id: str, name: str = "") -> Model:
    return Model(id, name or id, "anthropic-messages", provider, "")


OPUS = model("anthropic", "claude-opus-4-5", "Claude Opus 4.5")
SONNET = model("anthropic", "claude-sonnet-4-5", "Claude Sonnet 4.5")
OLD_SONNET = model("anthropic", "claude-sonnet-4-20250514", "Claude Sonnet 4")
ROUTED = model("router", "anthropic/claude-opus-4-5")
LOCAL = model("local", "qwen:7b")
SHARED = model("local", "claude-opus-4-5")
MODELS = [OPUS, SONNET, OLD_SONNET, LOCAL]


@pytest.mark.parametrize(
    ("pattern", "match"),
    [
        ("claude-opus-4-5", Match(OPUS)),
        ("anthropic/claude-opus-4-5", Match(OPUS)),
        ("Anthropic/CLAUDE-opus-4-5", Match(OPUS)),
        ("claude-opus-4-5:high", Match(OPUS, "high")),
        ("anthropic/claude-opus-4-5:off", Match(OPUS, "off")),
        ("claude-opus-4-5:zork", None),
        ("qwen:7b", Match(LOCAL)),
        ("qwen:7b:low", Match(LOCAL, "low")),
        ("claude-sonnet-4-20250514", Match(OLD_SONNET)),
        ("opus", Match(OPUS)),
        ("Opus 4.5", Match(OPUS)),
        ("sonnet", Match(SONNET)),
        ("anthropic/son", Match(SONNET)),
        ("sonnet-4-2025", Match(OLD_SONNET)),
        ("local/opus", None),
        ("zork", None),
    ],
)
def test_the_model_a_person_means_is_found(pattern: str, match: Match | None) -> None:
    assert find(pattern, MODELS) == match


def test_an_id_that_several_providers_have_needs_the_provider() -> None:
    models = [OPUS, SHARED]
    assert find("claude-opus-4-5", models) == Several([OPUS, SHARED])
    assert find("claude-opus-4-5:low", models) == Several([OPUS, SHARED], "low")
    assert exact("claude-opus-4-5", models) is None
    assert find("local/claude-opus-4-5", models) == Match(SHARED)
    assert find("claude-opus-4-5", models, "LOCAL") == Match(SHARED)


@pytest.mark.parametrize("models", [[OPUS, ROUTED], [ROUTED, OPUS]])
def test_a_name_with_a_slash_means_the_provider_first_and_then_an_id(models: list[Model]) -> None:
    assert find("anthropic/claude-opus-4-5", models) == Match(OPUS)
    assert find("anthropic/claude-opus-4-5", [ROUTED]) == Match(ROUTED)
    assert find("router/anthropic/claude-opus-4-5", models) == Match(ROUTED)


def test_of_several_that_contain_the_words_the_current_one_is_taken() -> None:
    dated = [model("a", f"gpt-{day}") for day in ("20250101", "20250601")]
    assert find("gpt", [*dated, model("a", "gpt-latest")]) == Match(model("a", "gpt-latest"))
    assert find("gpt", dated) == Match(dated[1])


def test_of_several_providers_the_one_that_can_be_used_is_meant() -> None:
    models = [OPUS, SONNET, SHARED, ROUTED]
    for mine in (OPUS, SHARED):
        found = find("claude-opus-4-5", models, usable=lambda model, mine=mine: model == mine)
        assert found == Match(mine)
    assert find("opus", models, usable=lambda model: model == SHARED) == Match(SHARED)
    # What nobody can use is looked for where it was made.
    assert find("opus", models) == Match(OPUS)
    assert find("opus", [ROUTED, *models]) == Match(ROUTED)


def test_a_name_with_a_slash_may_be_a_part_of_an_id() -> None:
    hosted = model("router", "anthropic/claude-next")
    assert find("anthropic/claude-n", [OPUS, hosted]) == Match(hosted)


@pytest.mark.parametrize(
    ("pattern", "match"),
    [
        ("claude-opus-4-5", Match(OPUS)),
        ("anthropic/CLAUDE-opus-4-5:high", Match(OPUS, "high")),
        ("qwen:7b", Match(LOCAL)),
        ("opus", None),
        ("qwen", None),
    ],
)
def test_an_exact_name_is_no_part_of_one(pattern: str, match: Match | None) -> None:
    assert exact(pattern, MODELS) == match


def test_patterns_select_models_once_and_in_order() -> None:
    assert scope(["*sonnet*:high", "anthropic/*", "local/qwen*"], MODELS) == (
        [Match(SONNET, "high"), Match(OLD_SONNET, "high"), Match(OPUS), Match(LOCAL)],
        [],
    )


def test_patterns_that_select_nothing_are_named() -> None:
    assert scope(["opus:low", "zork", "zork/*"], MODELS) == (
        [Match(OPUS, "low")],
        ['No models match pattern "zork"', 'No models match pattern "zork/*"'],
    )
    assert scope([], MODELS) == ([], [])


@pytest.mark.parametrize(("pattern", "chosen"), [("opus:zork", [OPUS]), ("local/*:zork", [LOCAL])])
def test_a_level_that_is_none_is_warned_of_and_ignored(pattern: str, chosen: list[Model]) -> None:
    warning = f'Invalid thinking level "zork" in pattern "{pattern}". Using default instead.'
    assert scope([pattern], MODELS) == ([Match(model) for model in chosen], [warning])


def test_an_id_of_several_providers_selects_them_all() -> None:
    assert scope(["claude-opus-4-5:low"], [OPUS, SHARED]) == ([Match(OPUS, "low"), Match(SHARED, "low")], [])


def test_only_the_seven_levels_are_levels() -> None:
    levels = ["off", "minimal", "low", "medium", "high", "xhigh", "max"]
    assert [as_level(level) for level in levels] == levels
    assert [as_level(text) for text in ("", "High", "zork")] == [None, None, None]
