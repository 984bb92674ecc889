"""Which models there are: the built-in ones, changed and extended by the user's models.json.

Pure: the file's content is handed in. A mistake in one provider's entry costs
that entry and is reported; it never takes other models away.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from tau.records.base import UNSET, BadRecord, Record, UnsetType, decode, encode, field, replace
from tau.records.models import Model, Price

DEMO = Model("demo", "Offline demo", "demo", "tau", "", input=["text", "image"], context_window=200000, max_tokens=8192)
SCRIPTED = Model(
    "scripted", "Scripted", "scripted", "scripted", "", reasoning=True, input=["text", "image"], context_window=200000
)
# They need no key, and are never chosen unless somebody names them.
OFFLINE = (DEMO, SCRIPTED)


def _claude(id: str, name: str, *price: float) -> Model:
    return Model(
        id,
        name,
        "anthropic-messages",
        "anthropic",
        "https://api.anthropic.com",
        reasoning=True,
        input=["text", "image"],
        cost=Price(*price),
        context_window=200000,
        max_tokens=64000,
    )


BUILT_IN = (
    _claude("claude-opus-4-5", "Claude Opus 4.5", 5, 25, 0.5, 6.25),
    _claude("claude-sonnet-4-5", "Claude Sonnet 4.5", 3, 15, 0.3, 3.75),
    _claude("claude-haiku-4-5", "Claude Haiku 4.5", 1, 5, 0.1, 1.25),
)
# The model of a provider that is taken when the user has said nothing.
DEFAULTS = {"anthropic": "claude-opus-4-5"}


class ModelGiven(Record):
    """A model in models.json; what is left out comes from the provider or a default."""

    id: str
    name: str | None = None
    api: str | None = None
    base_url: str | None = None
    reasoning: bool = False
    input: list[Literal["text", "image"]] = field(default_factory=lambda: ["text"])
    cost: Price = Price()
    context_window: int = 128000
    max_tokens: int = 16384
    headers: dict[str, str] | UnsetType = UNSET
    compat: dict[str, Any] | UnsetType = UNSET
    thinking_level_map: dict[str, str | None] | UnsetType = UNSET


class ProviderGiven(Record):
    base_url: str | None = None
    api_key: str | None = None
    api: str | None = None
    headers: dict[str, str] = {}
    compat: dict[str, Any] | UnsetType = UNSET
    auth_header: bool = False
    models: list[ModelGiven] | None = None
    model_overrides: dict[str, dict[str, Any]] | None = None


def providers(content: Any) -> tuple[dict[str, ProviderGiven], list[str]]:
    """The providers of a models.json, and what is wrong with the file."""
    if not isinstance(content, dict) or not isinstance(content.get("providers"), dict):
        return {}, ["Invalid models.json schema:\n  - providers: expected object"]
    read, problems = {}, []
    for name, value in content["providers"].items():
        try:
            given = decode(ProviderGiven, encode(value))
            _check(name, given)
            read[name] = given
        except BadRecord as error:
            problems.append(f"Invalid models.json schema:\n  - providers.{name}: {error}")
        except ValueError as error:
            problems.append(str(error))
    return read, problems


def _check(name: str, given: ProviderGiven) -> None:
    if not given.models:
        if given.base_url is None and given.compat is UNSET and not given.model_overrides:
            raise ValueError(f'Provider {name}: must specify "baseUrl", "compat", "modelOverrides", or "models".')
        return
    built_in = any(model.provider == name for model in BUILT_IN)
    for name_of, value in (("baseUrl", given.base_url), ("apiKey", given.api_key)):
        if value is None and not built_in:
            raise ValueError(f'Provider {name}: "{name_of}" is required when defining custom models.')
    for model in given.models:
        if model.api is None and given.api is None and not built_in:
            raise ValueError(f'Provider {name}, model {model.id}: no "api" specified. Set at provider or model level.')
        if model.context_window <= 0 or model.max_tokens <= 0:
            raise ValueError(f"Provider {name}, model {model.id}: contextWindow and maxTokens must be greater than 0.")


def merged(built_in: Iterable[Model], given: dict[str, ProviderGiven]) -> tuple[list[Model], list[str]]:
    """All models: the user's own replace built-in ones of the same provider and id."""
    models = {(model.provider, model.id): model for model in built_in}
    problems = []
    for name, provider in given.items():
        base = next((model for key, model in models.items() if key[0] == name), None)
        for key in [key for key in models if key[0] == name]:
            models[key] = _redirected(models[key], provider)
        for model in provider.models or ():
            models[name, model.id] = _made(name, provider, model, base)
        for id, change in (provider.model_overrides or {}).items():
            if (name, id) not in models:
                problems.append(f"models.json: providers.{name}.modelOverrides.{id}: no such model")
                continue
            try:
                models[name, id] = decode(Model, encode(_deep(decode(dict, encode(models[name, id])), change)))
            except BadRecord as error:
                problems.append(f"Invalid models.json schema:\n  - providers.{name}.modelOverrides.{id}.{error}")
    return list(models.values()), problems


def _redirected(model: Model, provider: ProviderGiven) -> Model:
    changes: dict[str, Any] = {}
    if provider.base_url is not None:
        changes["base_url"] = provider.base_url
    if provider.headers:
        changes["headers"] = {**(model.headers or {}), **provider.headers}
    if provider.compat is not UNSET:
        changes["compat"] = {**(model.compat or {}), **provider.compat}
    return replace(model, **changes) if changes else model


def _made(name: str, provider: ProviderGiven, given: ModelGiven, base: Model | None) -> Model:
    headers = {**provider.headers, **(given.headers or {})}
    compat = {**(provider.compat or {}), **(given.compat or {})}
    return Model(
        given.id,
        given.name or given.id,
        given.api or provider.api or (base.api if base else ""),
        name,
        given.base_url or provider.base_url or (base.base_url if base else ""),
        given.reasoning,
        given.input,
        given.cost,
        given.context_window,
        given.max_tokens,
        headers or UNSET,
        compat or UNSET,
        given.thinking_level_map,
    )


def _deep(value: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    merged = dict(value)
    for key, new in change.items():
        old = merged.get(key)
        merged[key] = _deep(old, new) if isinstance(old, dict) and isinstance(new, dict) else new
    return merged
