"""What to do about a model that cannot be used: the one variable that is missing, or the name that was meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from tau.records.models import Model
from tau.store.config_values import not_set
from tau.store.keys import KEY_VARIABLES, Keys

MAX_SUGGESTIONS = 3
SIMILARITY = 0.7


def missing_key_error(provider: str, keys: Keys) -> str:
    """Name the provider's own variable; for a provider of models.json, the variable that its entry refers to."""
    if unset := keys.missing(provider):
        where = keys.source(provider)
        return (
            f"No API key found for {provider}: {not_set(unset)}. {where} refers to it: set it, or write the key there."
        )
    if variable := key_variable(provider):
        return f"No API key found for {provider}. Set {variable}."
    return f'No API key found for {provider}. Run "tau login {provider}", or add "apiKey" to its entry in models.json.'


def key_variable(provider: str) -> str | None:
    """The variable to set for a provider: a key, where it accepts tokens too."""
    names = KEY_VARIABLES.get(provider, ())
    return next((name for name in names if name.endswith("_API_KEY")), next(iter(names), None))


def unknown_model_error(name: str, models: Iterable[Model]) -> str:
    """Suggest similar ids. Only the id of "provider/id" is compared if the provider has no similar model."""
    listed = list(models)
    full = {f"{model.provider}/{model.id}".lower(): f"{model.provider}/{model.id}" for model in listed}
    ids = {model.id.lower(): model.id for model in listed}
    wanted = name.lower()
    found = _similar(wanted, full) if "/" in wanted else []
    found = found or _similar(wanted.rpartition("/")[2], ids)
    advice = f"Did you mean {or_list(found)}?" if found else "Use --list-models to see available models."
    return f'Model "{name}" not found. {advice}'


def unknown_provider_error(name: str, providers: Iterable[str]) -> str:
    found = _similar(name.lower(), {provider.lower(): provider for provider in providers})
    advice = f"Did you mean {or_list(found)}?" if found else "Use --list-models to see available providers/models."
    return f'Unknown provider "{name}". {advice}'


def or_list(names: list[str]) -> str:
    """a, b or c"""
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


def _similar(wanted: str, names: dict[str, str]) -> list[str]:
    return [names[name] for name in get_close_matches(wanted, names, MAX_SUGGESTIONS, SIMILARITY)]
