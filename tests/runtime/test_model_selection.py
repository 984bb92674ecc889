from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from support.loop_kit import assistant
from tau.core.models.patterns import ModelMatch
from tau.errors import CommandError, ModelError, UsageError
from tau.llm import types
from tau.llm.catalog import DEMO, LOCAL_MODEL, SCRIPTED, Catalog, parse_providers
from tau.records.base import UNSET, replace
from tau.records.models import Model, Price
from tau.records.settings import CompatSettings, Settings
from tau.runtime.models.selection import ModelAccess, ModelSelection
from tau.store.keys import AUTHENTICATED, Keys

CLAUDE = Catalog().models_of("anthropic")
HAIKU, OPUS, NEWEST_OPUS = (
    next(model for model in CLAUDE if model.id == id)
    for id in ("claude-haiku-5-5", "claude-opus-4-8", "claude-opus-5-5")
)
OWN = {
    "baseUrl": "https://lab",
    "apiKey": "$LAB_KEY",
    "api": "anthropic-messages",
    "models": [{"id": "m-1"}, {"id": "m-2", "reasoning": True}],
}
LAB = Model("m-1", "m-1", "anthropic-messages", "lab", "https://lab")
LAB_TWO = replace(LAB, id="m-2", name="m-2", reasoning=True)
QWEN = Model("qwen3", "qwen3", "openai-completions", "ollama", "http://127.0.0.1:11434/v1")


def models(*with_key: str, environment: dict[str, str] | None = None, **given: Any) -> ModelSelection:
    """The models of a user who has a provider "lab" and keys for these."""
    read, problems = parse_providers({"providers": {"lab": OWN, **given}})
    assert problems == []
    keys = Keys(Path("/nonexistent/auth.json"), environment or {})
    keys.configured = dict.fromkeys(with_key, "sk-key")
    return ModelSelection(Catalog(read), keys)


def chosen(*with_key: str, **wishes: Any) -> ModelSelection:
    found = models(*with_key)
    assert found.choose(wishes.pop("settings", Settings()), **wishes) == []
    return found


def read(found: ModelSelection) -> list[str]:
    """The providers whose figures had to be read."""
    return list(found.catalog._read)


# What a session starts with.


def test_without_a_key_there_is_no_model_and_no_demo_in_its_place() -> None:
    found = chosen()
    assert (found.current, found.level, found.available) == (None, "off", [])
    with pytest.raises(CommandError, match="No model selected") as caught:
        found.ready()
    assert "ANTHROPIC_API_KEY" in str(caught.value) and "--model demo" in str(caught.value)


def test_only_models_with_a_key_are_available_and_no_others_are_read() -> None:
    found = models("lab")
    assert found.available == [LAB, LAB_TWO]
    assert {"anthropic", "openrouter"}.isdisjoint(read(found))
    assert models("lab", "anthropic").available == [*CLAUDE, LAB, LAB_TWO]


@pytest.mark.parametrize(
    ("keys", "settings", "expected"),
    [
        (("anthropic", "lab"), Settings(), OPUS),
        (("lab",), Settings(), LAB),
        (("anthropic", "lab"), Settings(default_provider="lab", default_model="m-2"), LAB_TWO),
        (("anthropic", "lab"), Settings(default_model="m-2"), LAB_TWO),
        (("anthropic",), Settings(default_provider="lab", default_model="m-2"), OPUS),
        ((), Settings(default_provider="tau", default_model="demo"), DEMO),
        (("anthropic",), Settings(default_provider="ollama", default_model="qwen3"), QWEN),
        (("anthropic",), Settings(enabled_models=["haiku"]), HAIKU),
        (("anthropic",), Settings(enabled_models=["haiku", "opus-4-8"], default_model="x"), HAIKU),
        (
            ("anthropic",),
            Settings(
                enabled_models=["haiku", "opus-4-8"], default_provider="anthropic", default_model="claude-opus-4-8"
            ),
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
        ({"pattern": "local"}, LOCAL_MODEL),
        ({"provider": "anthropic"}, OPUS),
        ({"provider": "lab"}, LAB),
        ({"provider": "LAB"}, LAB),
        ({"provider": "tau"}, DEMO),
        ({"provider": "lab", "pattern": "2"}, LAB_TWO),
        ({"pattern": "lab/2"}, LAB_TWO),
        ({"pattern": "claude-opus-4-8", "provider": "anthropic"}, OPUS),
        ({"pattern": "opus", "provider": "anthropic"}, NEWEST_OPUS),
        # Nobody can use it: whoever makes it is meant.
        ({"pattern": "opus"}, NEWEST_OPUS),
    ],
)
def test_a_model_that_is_asked_for_is_taken_with_or_without_a_key(wishes: dict[str, str], expected: Model) -> None:
    assert chosen(**wishes).current == expected


@pytest.mark.parametrize("wishes", [{"pattern": "qwen3", "provider": "ollama"}, {"pattern": "ollama/qwen3"}])
def test_a_server_on_this_machine_needs_neither_a_file_nor_a_key(wishes: dict[str, str]) -> None:
    found = chosen(**wishes)
    assert (found.current, found.ready(), found.available) == (QWEN, QWEN, [QWEN])
    assert "anthropic" not in read(found)


@pytest.mark.parametrize(
    ("pattern", "id", "level"), [("qwen3:8b", "qwen3:8b", "off"), ("qwen3:high", "qwen3", "off"), ("a/b", "a/b", "off")]
)
def test_ids_of_a_server_are_taken_as_given(pattern: str, id: str, level: str) -> None:
    found = chosen(pattern=pattern, provider="ollama")
    assert (found.current, found.level) == (replace(QWEN, id=id, name=id), level)


def test_a_server_has_no_usual_model() -> None:
    with pytest.raises(UsageError, match="vllm has no default model"):
        models().choose(Settings(), provider="vllm")


def test_an_unknown_model_of_a_known_provider_is_like_its_default() -> None:
    warning = 'Model "claude-next" not found for provider "anthropic". Using custom model id.'
    for wishes in ({"provider": "anthropic", "pattern": "claude-next:low"}, {"pattern": "anthropic/claude-next:low"}):
        found = models("anthropic")
        assert found.choose(Settings(), **wishes) == [warning]  # type: ignore[arg-type]
        assert found.current == replace(OPUS, id="claude-next", name="claude-next", cost=Price())
        assert found.level == "low"
        assert found.available[-1] == found.current


def test_an_id_with_a_slash_may_belong_to_a_provider_or_a_reseller() -> None:
    routed = chosen("openrouter", pattern="openai/gpt-oss-120b").current
    assert routed is not None and routed.provider == "openrouter"


def test_an_id_of_several_providers_means_the_one_with_a_key() -> None:
    for provider in ("openai", "azure", "opencode"):
        current = chosen(provider, pattern="gpt-5.4").current
        assert current is not None and (current.provider, current.id) == (provider, "gpt-5.4")


def test_several_with_a_key_are_one_too_many_unless_one_is_the_usual() -> None:
    found = models("openai", "opencode")
    with pytest.raises(UsageError) as caught:
        found.choose(Settings(), pattern="gpt-5.4")
    assert str(caught.value) == 'Model "gpt-5.4" is offered by openai, opencode. Choose one with --provider.'
    assert found.choose(Settings(default_provider="opencode"), pattern="gpt-5.4") == []
    assert found.current is not None and found.current.provider == "opencode"


def test_a_full_name_reads_only_what_it_must() -> None:
    assert "openrouter" not in read(chosen("anthropic", pattern="claude-opus-4-8"))


@pytest.mark.parametrize(
    ("wishes", "error"),
    [
        ({"pattern": "zork"}, 'Model "zork" not found. Use --list-models to see available models.'),
        (
            {"pattern": "zork", "provider": "tau"},
            'Model "zork" not found. Use --list-models to see available models.',
        ),
        ({"provider": "zork"}, 'Unknown provider "zork". Use --list-models to see available providers/models.'),
        ({"provider": "antropic"}, 'Unknown provider "antropic". Did you mean anthropic?'),
        ({"pattern": "m-22"}, 'Model "m-22" not found. Did you mean m-2?'),
        ({"pattern": "labs/m-22:high"}, 'Model "labs/m-22" not found. Did you mean lab/m-2 or lab/m-1?'),
        ({"pattern": "dmeo"}, 'Model "dmeo" not found. Did you mean demo?'),
    ],
)
def test_a_model_that_does_not_exist_is_an_error(wishes: dict[str, str], error: str) -> None:
    with pytest.raises(UsageError) as caught:
        models().choose(Settings(), **wishes)  # type: ignore[arg-type]
    assert str(caught.value) == error


@pytest.mark.parametrize(
    ("wishes", "settings", "level"),
    [
        ({"pattern": "opus-4-5"}, Settings(), "medium"),
        ({"pattern": "opus-4-5"}, Settings(default_thinking_level="low"), "low"),
        ({"pattern": "opus-4-5:high"}, Settings(default_thinking_level="low"), "high"),
        ({"pattern": "opus-4-5:high", "level": "minimal"}, Settings(), "minimal"),
        ({"pattern": "opus-4-5", "level": "max"}, Settings(), "high"),
        ({"pattern": "opus-4-8", "level": "max"}, Settings(), "max"),
        ({"pattern": "m-1", "level": "high"}, Settings(), "off"),
        ({"scoped": ["opus-4-5:low"]}, Settings(), "low"),
    ],
)
def test_the_level_is_the_one_asked_for_as_far_as_the_model_has_it(
    wishes: dict[str, Any], settings: Settings, level: str
) -> None:
    assert chosen("anthropic", settings=settings, **wishes).level == level


def test_patterns_that_match_nothing_are_warned_of() -> None:
    found = models("anthropic")
    assert found.choose(Settings(), scoped=["opus-4-8", "zork"]) == ['No models match pattern "zork"']
    assert (found.scoped, found.current) == ([ModelMatch(OPUS)], OPUS)


def test_models_of_a_server_can_be_in_scope() -> None:
    found = chosen("lab", scoped=["ollama/qwen3", "m-2:low"])
    assert found.scoped == [ModelMatch(QWEN), ModelMatch(LAB_TWO, "low")]


# Changing it.


def test_a_model_is_set_by_provider_and_id() -> None:
    found = chosen("anthropic", "lab")
    assert (found.set("lab", "m-1"), found.current, found.level) == (LAB, LAB, "off")
    assert found.set("tau", "demo") == DEMO
    assert found.set("ollama", "qwen3") == QWEN


@pytest.mark.parametrize(("provider", "id"), [("lab", "m-1"), ("anthropic", "zork"), ("ollama", "")])
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
    found = chosen("anthropic", "lab", pattern=CLAUDE[-1].id)
    assert [found.cycle() for _ in range(4)] == [LAB, LAB_TWO, *CLAUDE[:2]]


def test_cycling_goes_through_the_scoped_models_with_their_levels() -> None:
    found = chosen("anthropic", "lab", scoped=["opus-4-8:low", "m-2:high"])
    assert [(found.cycle(), found.level) for _ in range(2)] == [(LAB_TWO, "high"), (OPUS, "low")]


def test_a_model_outside_of_the_scope_counts_as_the_first_of_it() -> None:
    found = chosen("anthropic", "lab", scoped=["opus-4-8:low", "m-2:high"], pattern="m-1")
    assert (found.current, found.cycle(), found.level) == (LAB, LAB_TWO, "high")


def test_after_a_model_that_cannot_think_the_next_thinks_as_much_as_usual_if_that_is_wanted() -> None:
    found = chosen("lab", settings=Settings(compat=CompatSettings(thinking_returns=True)), pattern="m-2")
    assert [(found.cycle(), found.level) for _ in range(2)] == [(LAB, "off"), (LAB_TWO, "medium")]
    found.set_level("high")
    assert [(found.cycle(), found.level) for _ in range(2)] == [(LAB, "off"), (LAB_TWO, "high")]
    found = chosen("lab", pattern="m-2")
    assert [(found.cycle(), found.level) for _ in range(2)] == [(LAB, "off"), (LAB_TWO, "off")]


def test_there_is_nothing_to_cycle_with_one_model() -> None:
    assert (chosen(pattern="demo").cycle(), chosen("anthropic", scoped=["opus"]).cycle()) == (None, None)


def test_levels_can_be_set_and_cycled_as_far_as_the_model_has_them() -> None:
    found = chosen("anthropic", pattern="opus-4-5")
    found.set_level("max")
    assert (found.level, found.cycle_level(), found.level) == ("high", "off", "off")
    assert found.levels == ["off", "minimal", "low", "medium", "high"]
    found = chosen("lab")
    found.set_level("high")
    assert (found.level, found.cycle_level(), found.levels) == ("off", None, ["off"])


# Asking it.


@pytest.mark.parametrize(
    ("wishes", "error"),
    [
        ({"provider": "groq"}, "No API key found for groq. Set GROQ_API_KEY."),
        ({"provider": "anthropic"}, "No API key found for anthropic. Set ANTHROPIC_API_KEY."),
        ({"provider": "github-models", "pattern": "x"}, "No API key found for github-models. Set GITHUB_TOKEN."),
        ({"pattern": "gpt-5.4"}, "No API key found for openai. Set OPENAI_API_KEY."),
        (
            {"pattern": "m-1"},
            'No API key found for lab. Run "tau login lab", or add "apiKey" to its entry in models.json.',
        ),
    ],
)
def test_a_missing_key_is_named_by_its_one_variable(wishes: dict[str, str], error: str) -> None:
    with pytest.raises(CommandError) as caught:
        chosen(**wishes).ready()
    assert str(caught.value) == error


@pytest.mark.parametrize("written", ["$LAB_KEY", "${LAB_KEY}", "LAB_KEY"])
def test_a_variable_that_models_json_refers_to_is_named_and_its_name_is_never_sent(written: str) -> None:
    found = models()
    found.keys.configured = {"lab": written}
    error = (
        "No API key found for lab: LAB_KEY is not set in the environment. models.json refers to it: set it, or write "
        "the key there."
    )
    assert (found.keys.has("lab"), found.keys.get("lab")) == (False, None)
    found.choose(Settings(), pattern="m-1")
    with pytest.raises(CommandError, match=rf"^{re.escape(error)}$"):
        found.ready()
    with_key = models(environment={"LAB_KEY": "sk-lab"})
    with_key.keys.configured = {"lab": written}
    with_key.choose(Settings(), pattern="m-1")
    assert with_key.asked(with_key.ready()).key == "sk-lab"


@pytest.mark.parametrize("key", ["EMPTY", "NONE", "ollama", "test", "key", "sk-x", "KEY", "NO_KEY", "not_needed", "x"])
def test_the_dummy_keys_of_local_servers_are_keys(key: str) -> None:
    found = models()
    found.keys.configured = {"lab": key}
    found.choose(Settings(), pattern="m-1")
    assert found.asked(found.ready()).key == key


def test_a_model_without_a_key_cannot_be_asked() -> None:
    with pytest.raises(CommandError, match="No API key found for lab"):
        chosen(pattern="m-1").ready()
    assert chosen("lab", pattern="m-1").ready() == LAB
    assert chosen(pattern="demo").ready() == DEMO


def test_headers_are_looked_up_when_the_model_is_asked() -> None:
    headers = {"x-plain": "1", "x-team": "team-$TEAM", "x-told": "!echo told", "x-empty": " "}
    found = models("lab", environment={"TEAM": "blue"}, lab={**OWN, "headers": headers})
    (model, _) = found.catalog.models_of("lab")
    assert model.headers == headers
    assert (found.takes_time(model), models("lab").takes_time(LAB)) == (True, False)
    asked = found.asked(model)
    assert asked.model.headers == {"x-plain": "1", "x-team": "team-blue", "x-told": "told"}
    assert (asked.key, asked.environment) == ("sk-key", {"TEAM": "blue"})


@pytest.mark.parametrize(
    ("header", "value"), [("x-none", "$NOBODY"), ("x-none", "by ${NOBODY}"), ("x-api-key", "NOBODY_S_KEY")]
)
def test_a_header_whose_variable_is_not_set_is_an_error_and_in_a_replay_left_out(header: str, value: str) -> None:
    found = models("lab", lab={**OWN, "headers": {header: value}})
    (model, _) = found.catalog.models_of("lab")
    with pytest.raises(
        ModelError, match=rf"^The header {header} of lab cannot be sent: NOBODY\w* is not set in the env"
    ):
        found.asked(model)
    found.keys.set_key_for_all("any")
    assert found.asked(model).model.headers is UNSET


def test_a_header_that_is_no_secret_may_look_like_a_variable() -> None:
    found = models("lab", lab={**OWN, "headers": {"x-tier": "FLEX_PRIORITY"}})
    assert found.asked(found.catalog.models_of("lab")[0]).model.headers == {"x-tier": "FLEX_PRIORITY"}


def test_a_key_goes_into_the_usual_header_as_well_where_the_file_wants_it() -> None:
    found = models("lab", lab={**OWN, "authHeader": True})
    assert found.asked(LAB) == ModelAccess(replace(LAB, headers={"authorization": "Bearer sk-key"}), "sk-key", {})


@pytest.mark.parametrize("name", ["ANTHROPIC_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN"])
def test_a_token_goes_as_a_bearer_and_not_as_a_key(name: str) -> None:
    asked = models(environment={name: "token", "ANTHROPIC_API_KEY": "key"}).asked(OPUS)
    assert (asked.model.headers, asked.key) == ({"authorization": "Bearer token"}, None)


def test_credentials_that_are_no_key_are_looked_for_by_the_api() -> None:
    environment = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}
    found = models(environment=environment)
    model = found.catalog.default("amazon-bedrock")
    assert model is not None and found.takes_time(model)
    assert found.asked(model) == ModelAccess(model, AUTHENTICATED, environment)
    assert AUTHENTICATED == types.AUTHENTICATED


def test_a_cost_is_unknown_where_no_price_is() -> None:
    def answer(provider: str, id: str) -> bool:
        return found.unpriced(replace(assistant("hi"), provider=provider, model=id))

    found = models("anthropic")
    assert [answer("anthropic", "claude-opus-4-8"), answer("anthropic", "claude-next"), answer("zork", "x")] == [
        False,
        True,
        True,
    ]
    assert [answer("lab", "m-1"), answer("ollama", "qwen3"), answer("tau", "demo")] == [True, False, False]
