from __future__ import annotations

import pytest

from tau.core.models.patterns import AmbiguousModel, ModelMatch, find_exact, find_model, parse_level, select_models
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
        ("claude-opus-4-5", ModelMatch(OPUS)),
        ("anthropic/claude-opus-4-5", ModelMatch(OPUS)),
        ("Anthropic/CLAUDE-opus-4-5", ModelMatch(OPUS)),
        ("claude-opus-4-5:high", ModelMatch(OPUS, "high")),
        ("anthropic/claude-opus-4-5:off", ModelMatch(OPUS, "off")),
        ("claude-opus-4-5:zork", None),
        ("qwen:7b", ModelMatch(LOCAL)),
        ("qwen:7b:low", ModelMatch(LOCAL, "low")),
        ("claude-sonnet-4-20250514", ModelMatch(OLD_SONNET)),
        ("opus", ModelMatch(OPUS)),
        ("Opus 4.5", ModelMatch(OPUS)),
        ("sonnet", ModelMatch(SONNET)),
        ("anthropic/son", ModelMatch(SONNET)),
        ("sonnet-4-2025", ModelMatch(OLD_SONNET)),
        ("local/opus", None),
        ("zork", None),
    ],
)
def test_the_model_a_person_means_is_found(pattern: str, match: ModelMatch | None) -> None:
    assert find_model(pattern, MODELS) == match


def test_an_id_that_several_providers_have_needs_the_provider() -> None:
    models = [OPUS, SHARED]
    assert find_model("claude-opus-4-5", models) == AmbiguousModel([OPUS, SHARED])
    assert find_model("claude-opus-4-5:low", models) == AmbiguousModel([OPUS, SHARED], "low")
    assert find_exact("claude-opus-4-5", models) is None
    assert find_model("local/claude-opus-4-5", models) == ModelMatch(SHARED)
    assert find_model("claude-opus-4-5", models, "LOCAL") == ModelMatch(SHARED)


@pytest.mark.parametrize("models", [[OPUS, ROUTED], [ROUTED, OPUS]])
def test_a_name_with_a_slash_means_the_provider_first_and_then_an_id(models: list[Model]) -> None:
    assert find_model("anthropic/claude-opus-4-5", models) == ModelMatch(OPUS)
    assert find_model("anthropic/claude-opus-4-5", [ROUTED]) == ModelMatch(ROUTED)
    assert find_model("router/anthropic/claude-opus-4-5", models) == ModelMatch(ROUTED)


def test_of_several_that_contain_the_words_the_current_one_is_taken() -> None:
    dated = [model("a", f"gpt-{day}") for day in ("20250101", "20250601")]
    assert find_model("gpt", [*dated, model("a", "gpt-latest")]) == ModelMatch(model("a", "gpt-latest"))
    assert find_model("gpt", dated) == ModelMatch(dated[1])


def test_of_several_providers_the_one_that_can_be_used_is_meant() -> None:
    models = [OPUS, SONNET, SHARED, ROUTED]
    for mine in (OPUS, SHARED):
        found = find_model("claude-opus-4-5", models, usable=lambda model, mine=mine: model == mine)
        assert found == ModelMatch(mine)
    assert find_model("opus", models, usable=lambda model: model == SHARED) == ModelMatch(SHARED)
    # What nobody can use is looked for where it was made.
    assert find_model("opus", models) == ModelMatch(OPUS)
    assert find_model("opus", [ROUTED, *models]) == ModelMatch(ROUTED)


def test_a_name_with_a_slash_may_be_a_part_of_an_id() -> None:
    hosted = model("router", "anthropic/claude-next")
    assert find_model("anthropic/claude-n", [OPUS, hosted]) == ModelMatch(hosted)


@pytest.mark.parametrize(
    ("pattern", "match"),
    [
        ("claude-opus-4-5", ModelMatch(OPUS)),
        ("anthropic/CLAUDE-opus-4-5:high", ModelMatch(OPUS, "high")),
        ("qwen:7b", ModelMatch(LOCAL)),
        ("opus", None),
        ("qwen", None),
    ],
)
def test_an_exact_name_is_no_part_of_one(pattern: str, match: ModelMatch | None) -> None:
    assert find_exact(pattern, MODELS) == match


def test_patterns_select_models_once_and_in_order() -> None:
    assert select_models(["*sonnet*:high", "anthropic/*", "local/qwen*"], MODELS) == (
        [ModelMatch(SONNET, "high"), ModelMatch(OLD_SONNET, "high"), ModelMatch(OPUS), ModelMatch(LOCAL)],
        [],
    )


def test_patterns_that_select_nothing_are_named() -> None:
    assert select_models(["opus:low", "zork", "zork/*"], MODELS) == (
        [ModelMatch(OPUS, "low")],
        ['No models match pattern "zork"', 'No models match pattern "zork/*"'],
    )
    assert select_models([], MODELS) == ([], [])


@pytest.mark.parametrize(("pattern", "chosen"), [("opus:zork", [OPUS]), ("local/*:zork", [LOCAL])])
def test_a_level_that_is_none_is_warned_of_and_ignored(pattern: str, chosen: list[Model]) -> None:
    warning = f'Invalid thinking level "zork" in pattern "{pattern}". Using default instead.'
    assert select_models([pattern], MODELS) == ([ModelMatch(model) for model in chosen], [warning])


def test_an_id_of_several_providers_selects_them_all() -> None:
    assert select_models(["claude-opus-4-5:low"], [OPUS, SHARED]) == (
        [ModelMatch(OPUS, "low"), ModelMatch(SHARED, "low")],
        [],
    )


def test_only_the_seven_levels_are_levels() -> None:
    levels = ["off", "minimal", "low", "medium", "high", "xhigh", "max"]
    assert [parse_level(level) for level in levels] == levels
    assert [parse_level(text) for text in ("", "High", "zork")] == [None, None, None]
