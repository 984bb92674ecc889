from __future__ import annotations

from typing import Any

import pytest

from tau.errors import ModelError
from tau.llm.apis import api
from tau.llm.catalog import BUILT_IN, DEFAULTS, OFFLINE, ProviderGiven, merged, providers
from tau.records.base import encode, replace
from tau.records.models import Model, Price

LAB = {"baseUrl": "http://lab", "apiKey": "k", "api": "anthropic-messages", "models": [{"id": "a"}]}


def known(**given: Any) -> list[Model]:
    """All models with these providers in models.json, which must have no mistake."""
    read, problems = providers({"providers": given})
    models, more = merged(BUILT_IN, read)
    assert problems + more == []
    return models


def wrong(**given: Any) -> list[str]:
    read, problems = providers({"providers": given})
    models, more = merged(BUILT_IN, read)
    assert models[: len(BUILT_IN)] == list(BUILT_IN)  # a mistake takes nothing away
    return problems + more


def test_a_model_needs_little_more_than_a_name() -> None:
    assert known(lab=LAB)[-1] == Model("a", "a", "anthropic-messages", "lab", "http://lab")
    assert list(known(lab=LAB))[:-1] == list(BUILT_IN)


def test_a_model_as_clients_see_it() -> None:
    assert encode(known(lab=LAB)[-1]) == (
        b'{"id":"a","name":"a","api":"anthropic-messages","provider":"lab","baseUrl":"http://lab","reasoning":false,'
        b'"input":["text"],"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0},"contextWindow":128000,'
        b'"maxTokens":16384}'
    )


def test_a_model_may_say_everything_itself() -> None:
    own = {
        "id": "b",
        "name": "Bee",
        "api": "other-api",
        "baseUrl": "http://elsewhere",
        "reasoning": True,
        "input": ["text", "image"],
        "cost": {"input": 1, "output": 2, "cacheRead": 3, "cacheWrite": 4},
        "contextWindow": 1000,
        "maxTokens": 100,
        "headers": {"b": "2"},
        "compat": {"d": True},
        "thinkingLevelMap": {"off": None, "max": "max"},
    }
    provider = {**LAB, "headers": {"a": "1", "b": "1"}, "compat": {"c": 1}, "models": [own], "newer": "field"}
    assert known(lab=provider)[-1] == Model(
        "b",
        "Bee",
        "other-api",
        "lab",
        "http://elsewhere",
        True,
        ["text", "image"],
        Price(1, 2, 3, 4),
        1000,
        100,
        {"a": "1", "b": "2"},
        {"c": 1, "d": True},
        {"off": None, "max": "max"},
    )


def test_a_built_in_provider_can_be_sent_elsewhere() -> None:
    assert known(anthropic={"baseUrl": "http://proxy", "headers": {"x": "1"}}) == [
        replace(model, base_url="http://proxy", headers={"x": "1"}) for model in BUILT_IN
    ]


def test_models_join_a_built_in_provider_and_replace_its_own() -> None:
    models = known(anthropic={"models": [{"id": "claude-new"}, {"id": "claude-opus-4-5", "name": "Mine"}]})
    assert [model.id for model in models] == [*(model.id for model in BUILT_IN), "claude-new"]
    assert models[0] == Model("claude-opus-4-5", "Mine", "anthropic-messages", "anthropic", BUILT_IN[0].base_url)
    assert models[-1] == Model("claude-new", "claude-new", "anthropic-messages", "anthropic", BUILT_IN[0].base_url)


def test_parts_of_a_model_can_be_overridden() -> None:
    change = {"name": "Mine", "cost": {"output": 99}, "maxTokens": 5}
    (first, *rest) = known(anthropic={"modelOverrides": {"claude-opus-4-5": change}})
    assert first == replace(BUILT_IN[0], name="Mine", cost=replace(BUILT_IN[0].cost, output=99), max_tokens=5)
    assert rest == list(BUILT_IN[1:])


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, 'Provider lab: must specify "baseUrl", "compat", "modelOverrides", or "models".'),
        ({"apiKey": "k"}, 'Provider lab: must specify "baseUrl", "compat", "modelOverrides", or "models".'),
        ({**LAB, "baseUrl": None}, 'Provider lab: "baseUrl" is required when defining custom models.'),
        ({**LAB, "apiKey": None}, 'Provider lab: "apiKey" is required when defining custom models.'),
        ({**LAB, "api": None}, 'Provider lab, model a: no "api" specified. Set at provider or model level.'),
        (
            {**LAB, "models": [{"id": "a", "maxTokens": 0}]},
            "Provider lab, model a: contextWindow and maxTokens must be greater than 0.",
        ),
        ({**LAB, "models": [{}]}, "Invalid models.json schema:\n  - providers.lab: models[0].id: missing"),
        (
            {**LAB, "models": [{"id": "a", "maxTokens": "many"}]},
            "Invalid models.json schema:\n  - providers.lab: models[0].maxTokens: expected int, got str",
        ),
        (5, "Invalid models.json schema:\n  - providers.lab: expected object, got int"),
        (
            {"modelOverrides": {"a": {"name": "x"}}},
            "models.json: providers.lab.modelOverrides.a: no such model",
        ),
        (
            {**LAB, "modelOverrides": {"a": {"maxTokens": "many"}}},
            "Invalid models.json schema:\n  - providers.lab.modelOverrides.a.maxTokens: expected int, got str",
        ),
    ],
)
def test_a_mistake_is_named_and_costs_only_its_own_entry(given: Any, problem: str) -> None:
    assert wrong(lab=given) == [problem]


@pytest.mark.parametrize("content", [None, [], 5, {}, {"providers": []}])
def test_a_file_of_another_shape_is_reported(content: Any) -> None:
    assert providers(content) == ({}, ["Invalid models.json schema:\n  - providers: expected object"])


def test_a_good_provider_survives_beside_a_bad_one() -> None:
    read, problems = providers({"providers": {"bad": 5, "lab": LAB}})
    assert (list(read), len(problems)) == (["lab"], 1)
    assert isinstance(read["lab"], ProviderGiven)


def test_every_default_is_a_model_and_offline_ones_are_not_listed() -> None:
    names = {(model.provider, model.id) for model in BUILT_IN}
    assert set(DEFAULTS.items()) <= names
    assert not names & {(model.provider, model.id) for model in OFFLINE}


@pytest.mark.parametrize("model", [*BUILT_IN, *OFFLINE], ids=lambda model: model.id)
def test_every_model_speaks_an_api_we_have(model: Model) -> None:
    assert api(model.api)


def test_an_api_we_do_not_speak_is_named() -> None:
    with pytest.raises(ModelError, match='The API "zork" is not supported') as caught:
        api("zork")
    assert caught.value.transient is False
