from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tau.errors import ModelError
from tau.llm.apis import load_api
from tau.llm.catalog import (
    DEFAULT_MODELS,
    LOCAL_PROVIDERS,
    OFFLINE_MODELS,
    SERVERS,
    Catalog,
    ProviderConfig,
    parse_providers,
)
from tau.records.base import encode, replace
from tau.records.models import THINKING_LEVELS, Model, Price

LAB = {"baseUrl": "http://lab", "apiKey": "k", "api": "anthropic-messages", "models": [{"id": "a"}]}
BUILT_IN = Catalog()
CLAUDE = BUILT_IN.models_of("anthropic")
OPUS = next(model for model in CLAUDE if model.id == "claude-opus-4-5")


def catalog(**given: Any) -> Catalog:
    """The catalogue with these providers in models.json, which must have no mistake."""
    read, problems = parse_providers({"providers": given})
    assert problems == []
    return Catalog(read)


def known(provider: str, **given: Any) -> list[Model]:
    """The models of a provider with these in models.json."""
    found = catalog(**given)
    models = found.models_of(provider)
    assert found.problems == []
    return models


def wrong(**given: Any) -> list[str]:
    read, problems = parse_providers({"providers": given})
    found = Catalog(read)
    for name in given:
        found.models_of(name)
    assert found.models_of("anthropic") == CLAUDE  # a mistake takes nothing away
    return [problem.text for problem in problems + found.problems]


# What comes with the program.


def test_every_provider_has_its_models_and_one_to_take_by_itself() -> None:
    for provider, id in DEFAULT_MODELS.items():
        models = BUILT_IN.models_of(provider)
        assert {model.provider for model in models} == {provider}
        assert len({model.id for model in models}) == len(models)
        default = BUILT_IN.default(provider)
        assert default is not None and default.id == id


@pytest.mark.parametrize("provider", DEFAULT_MODELS)
def test_every_figure_can_be_true(provider: str) -> None:
    for model in BUILT_IN.models_of(provider):
        assert model.context_window > 0 and model.max_tokens > 0
        assert min(model.cost.input, model.cost.output, model.cost.cache_read, model.cost.cache_write) >= 0
        assert "text" in model.input
        assert set(model.thinking_level_map or {}) <= set(THINKING_LEVELS)
        assert provider == "azure" or model.base_url.startswith("https://")


def test_every_model_speaks_an_api_we_have() -> None:
    everything = [model for provider in BUILT_IN.providers for model in BUILT_IN.models_of(provider)]
    assert all(load_api(name) for name in {model.api for model in (*everything, *OFFLINE_MODELS)})


def test_tau_impersonates_no_other_client() -> None:
    everything = [model for provider in DEFAULT_MODELS for model in BUILT_IN.models_of(provider)]
    assert {name for model in everything for name in model.headers or {}} == {"NVCF-POLL-SECONDS"}


def test_a_price_of_the_catalogue() -> None:
    assert OPUS.cost == Price(5, 25, 0.5, 6.25)
    assert (OPUS.context_window, OPUS.max_tokens) == (200000, 64000)
    assert (OPUS.input, OPUS.reasoning) == (["text", "image"], True)


def test_the_page_on_the_catalogue_is_of_these_figures() -> None:
    page = (Path(__file__).parents[2] / "docs" / "catalog.md").read_text(encoding="utf-8")
    rows = [f"| {provider} | {len(BUILT_IN.models_of(provider))} | {id} |" for provider, id in DEFAULT_MODELS.items()]
    assert "\n".join(rows) in page


def test_a_provider_is_read_when_it_is_asked_for() -> None:
    fresh = Catalog()
    assert (fresh.providers, fresh._read) == ([*DEFAULT_MODELS, *SERVERS], {})
    fresh.models_of("groq")
    assert list(fresh._read) == ["groq"]


def test_offline_models_are_not_listed() -> None:
    assert {model.provider for model in OFFLINE_MODELS}.isdisjoint(BUILT_IN.providers)


@pytest.mark.parametrize(("said", "meant"), [("anthropic", "anthropic"), ("OpenAI", "openai"), ("zork", None)])
def test_a_provider_is_known_however_it_is_spelled(said: str, meant: str | None) -> None:
    assert BUILT_IN.canonical_name(said) == meant


def test_a_model_that_is_not_listed_is_like_the_default_but_of_no_known_price() -> None:
    default = BUILT_IN.default("anthropic")
    assert default is not None
    made = BUILT_IN.custom_model("anthropic", "claude-next")
    assert made == replace(default, id="claude-next", name="claude-next", cost=Price())
    assert BUILT_IN.custom_model("zork", "x") is None


# Servers on this machine.


def test_servers_list_nothing_and_take_every_id() -> None:
    assert {name: BUILT_IN.models_of(name) for name in SERVERS} == {name: [] for name in SERVERS}
    assert BUILT_IN.custom_model("ollama", "qwen3:8b") == Model(
        "qwen3:8b", "qwen3:8b", "openai-completions", "ollama", "http://127.0.0.1:11434/v1"
    )
    assert {"ollama", "llama.cpp", "lmstudio", "vllm"} == LOCAL_PROVIDERS


@pytest.mark.parametrize(
    ("variable", "address"),
    [
        ("", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0:9000", "http://127.0.0.1:9000/v1"),
        (":9000", "http://127.0.0.1:9000/v1"),
        ("gpu", "http://gpu:11434/v1"),
        ("gpu:9000", "http://gpu:9000/v1"),
        ("http://gpu:9000/", "http://gpu:9000/v1"),
        ("http://gpu:9000/v1", "http://gpu:9000/v1"),
        ("https://ollama.example.com", "https://ollama.example.com/v1"),
    ],
)
def test_ollama_is_where_its_variable_says(variable: str, address: str) -> None:
    made = Catalog(environment={"OLLAMA_HOST": variable}).custom_model("ollama", "m")
    assert made is not None and made.base_url == address


def test_models_json_can_say_more_of_a_server() -> None:
    found = catalog(ollama={"baseUrl": "http://gpu/v1", "models": [{"id": "a", "reasoning": True}]})
    assert found.models_of("ollama") == [
        Model("a", "a", "openai-completions", "ollama", "http://gpu/v1", reasoning=True)
    ]
    assert found.custom_model("ollama", "b") == Model("b", "b", "openai-completions", "ollama", "http://gpu/v1")
    changed = catalog(vllm={"modelOverrides": {"m": {"contextWindow": 5000}}})
    assert [(model.id, model.context_window) for model in changed.models_of("vllm")] == [("m", 5000)]


# models.json.


def test_a_model_needs_little_more_than_a_name() -> None:
    assert known("lab", lab=LAB) == [Model("a", "a", "anthropic-messages", "lab", "http://lab")]
    assert known("anthropic", lab=LAB) == CLAUDE
    assert catalog(lab=LAB).providers[-1] == "lab"


def test_a_model_as_clients_see_it() -> None:
    assert encode(known("lab", lab=LAB)[-1]) == (
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
    assert known("lab", lab=provider)[-1] == Model(
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
    assert known("anthropic", anthropic={"baseUrl": "http://proxy", "headers": {"x": "1"}}) == [
        replace(model, base_url="http://proxy", headers={"x": "1"}) for model in CLAUDE
    ]


def test_models_join_a_built_in_provider_and_replace_its_own() -> None:
    own = [{"id": "claude-new"}, {"id": "claude-opus-4-5", "name": "Mine"}]
    models = {model.id: model for model in known("anthropic", anthropic={"models": own})}
    assert list(models) == [*(model.id for model in CLAUDE), "claude-new"]
    plain = Model("claude-new", "claude-new", "anthropic-messages", "anthropic", OPUS.base_url)
    assert models["claude-new"] == plain
    assert models["claude-opus-4-5"] == replace(plain, id="claude-opus-4-5", name="Mine")


def test_parts_of_a_model_can_be_overridden() -> None:
    change = {"name": "Mine", "cost": {"output": 99}, "maxTokens": 5}
    models = known("anthropic", anthropic={"modelOverrides": {"claude-opus-4-5": change}})
    changed = replace(OPUS, name="Mine", cost=replace(OPUS.cost, output=99), max_tokens=5)
    assert models == [changed if model.id == OPUS.id else model for model in CLAUDE]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, 'Provider lab: must specify "baseUrl", "compat", "modelOverrides", or "models".'),
        ({"apiKey": "k"}, 'Provider lab: must specify "baseUrl", "compat", "modelOverrides", or "models".'),
        ({**LAB, "baseUrl": None}, 'Provider lab: "baseUrl" is required when defining custom models.'),
        ({**LAB, "api": None}, 'Provider lab, model a: no "api" specified. Set at provider or model level.'),
        (
            {**LAB, "models": [{"id": "a", "maxTokens": 0}]},
            "Provider lab, model a: contextWindow and maxTokens must be greater than 0.",
        ),
        ({**LAB, "models": [{}]}, "providers.lab.models[0].id: missing"),
        (
            {**LAB, "models": [{"id": "a", "maxTokens": "many"}]},
            "providers.lab.models[0].maxTokens: expected int, got str",
        ),
        (5, "providers.lab: expected object, got int"),
        (
            {"modelOverrides": {"a": {"name": "x"}}},
            "providers.lab.modelOverrides.a: no such model",
        ),
        (
            {**LAB, "modelOverrides": {"a": {"maxTokens": "many"}}},
            "providers.lab.modelOverrides.a.maxTokens: expected int, got str",
        ),
    ],
)
def test_a_mistake_is_named_and_costs_only_its_own_entry(given: Any, problem: str) -> None:
    assert wrong(lab=given) == [problem]


def test_every_mistake_of_a_provider_is_named_with_its_place() -> None:
    models = [{"id": "a", "maxTokens": 0}, {"id": "b"}, {"id": "c", "contextWindow": -1}]
    _, problems = parse_providers({"providers": {"lab": {**LAB, "models": models}}})
    assert [problem.place for problem in problems] == ["providers.lab.models[0]", "providers.lab.models[2]"]


@pytest.mark.parametrize("content", [None, [], 5, {}, {"providers": []}])
def test_a_file_of_another_shape_is_reported(content: Any) -> None:
    read, problems = parse_providers(content)
    assert (read, [problem.text for problem in problems]) == (
        {},
        ["providers: expected object"],
    )


def test_a_good_provider_survives_beside_a_bad_one() -> None:
    read, problems = parse_providers({"providers": {"bad": 5, "lab": LAB}})
    assert (list(read), len(problems)) == (["lab"], 1)
    assert isinstance(read["lab"], ProviderConfig)


def test_an_api_we_do_not_speak_is_named() -> None:
    with pytest.raises(ModelError, match='The API "zork" is not supported') as caught:
        load_api("zork")
    assert caught.value.transient is False


OAUTH = {"clientId": "c", "tokenUrl": "https://x.example/t", "authorizationUrl": "https://x.example/a"}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({}, None),
        ({"tokenUrl": "http://127.0.0.1:8/t"}, None),
        ({"tokenUrl": "http://x.example/t"}, "Provider lab: tokenUrl must be an https URL."),
        ({"revocationUrl": "ftp://x"}, "Provider lab: revocationUrl must be an https URL."),
        ({"redirectUri": "https://x.example/cb"}, "Provider lab: redirectUri must be an http URL of this machine."),
        (
            {"authorizationUrl": None},
            'Provider lab: oauthClient needs "authorizationUrl" or "deviceAuthorizationUrl".',
        ),
    ],
)
def test_an_oauth_client_replaces_the_key_and_sends_tokens_only_encrypted(
    change: dict[str, Any], problem: str | None
) -> None:
    lab = {"baseUrl": "https://x.example", "api": "openai-completions", "models": [{"id": "m"}]}
    providers, problems = parse_providers({"providers": {"lab": {**lab, "oauthClient": {**OAUTH, **change}}}})
    assert [found.what for found in problems] == ([problem] if problem else [])
    assert ("lab" in providers) == (problem is None)


# models.json is read again.


def test_another_models_json_replaces_the_first_but_not_the_providers_of_extensions() -> None:
    found = catalog(lab=LAB, old=LAB)
    added = replace(found.configured["lab"], base_url="http://extension")
    found.replace_provider("lab", added)
    assert [model.id for model in found.models_of("old")] == ["a"]
    changed, _ = parse_providers({"providers": {"lab": {**LAB, "baseUrl": "http://new"}, "more": LAB}})
    found.reconfigure(changed)
    assert "old" not in found.providers and "more" in found.providers
    assert [model.base_url for model in found.models_of("lab")] == ["http://extension"]
    found.restore("lab")
    assert [model.base_url for model in found.models_of("lab")] == ["http://new"]
