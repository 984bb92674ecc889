"""Find the model that a pattern names: "provider/id:thinking", a part of a name, a glob.

An exact name always wins. Among several partial matches, an id without a date wins, because vendors keep that one
current. If several providers have a matching model, those with credentials come first.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence

from tau.records.base import Value
from tau.records.models import THINKING_LEVELS, Model, ThinkingLevel

_DATED = r"-\d{8}$"
_GLOB = "*?["


class ModelMatch(Value):
    model: Model
    level: ThinkingLevel | None = None


class AmbiguousModel(Value):
    """Several providers have a model with exactly this id, and the pattern does not name a provider."""

    models: list[Model]
    level: ThinkingLevel | None = None


def _never(model: Model) -> bool:
    return False


def find_model(
    pattern: str, models: Sequence[Model], provider: str | None = None, usable: Callable[[Model], bool] = _never
) -> ModelMatch | AmbiguousModel | None:
    """The model that `pattern` names, among those of `provider` if it is given."""
    candidates = [model for model in models if provider is None or model.provider.lower() == provider.lower()]
    for name, level in split_level(pattern):
        found = _named(name, candidates, usable)
        if found:
            return ModelMatch(found[0], level) if len(found) == 1 else AmbiguousModel(found, level)
    return None


def find_exact(pattern: str, models: Sequence[Model]) -> ModelMatch | None:
    """The only model with exactly this id, or provider and id."""
    for name, level in split_level(pattern):
        found = _exact(name, models)
        if len(found) == 1:
            return ModelMatch(found[0], level)
    return None


def split_level(pattern: str) -> list[tuple[str, ThinkingLevel | None]]:
    """Interpretations of a pattern: the whole as a name, since ids may contain colons, and a name with a level."""
    head, colon, tail = pattern.rpartition(":")
    level = parse_level(tail) if colon else None
    return [(pattern, None), *([(head, level)] if level else [])]


def select_models(patterns: Sequence[str], models: Sequence[Model]) -> tuple[list[ModelMatch], list[str]]:
    """The models that a list of patterns selects, each once, and warnings for the user."""
    chosen: dict[tuple[str, str], ModelMatch] = {}
    warnings = []
    for pattern in patterns:
        found = _selected(pattern, models)
        head, colon, tail = pattern.rpartition(":")
        if not found and colon and (found := _selected(head, models)):
            warnings.append(f'Invalid thinking level "{tail}" in pattern "{pattern}". Using default instead.')
        if not found:
            warnings.append(f'No models match pattern "{pattern}"')
        for match in found:
            chosen.setdefault((match.model.provider, match.model.id), match)
    return list(chosen.values()), warnings


def parse_level(text: str) -> ThinkingLevel | None:
    return next((level for level in THINKING_LEVELS if level == text), None)


def _selected(pattern: str, models: Sequence[Model]) -> list[ModelMatch]:
    if any(mark in pattern for mark in _GLOB):
        return _globbed(pattern, models)
    found = find_model(pattern, models)
    if isinstance(found, AmbiguousModel):
        return [ModelMatch(model, found.level) for model in found.models]
    return [found] if found else []


def _named(name: str, models: Sequence[Model], usable: Callable[[Model], bool]) -> list[Model]:
    """The best match; several only if they have the same id."""
    wanted = name.lower()
    if found := _exact(wanted, models):
        return [model for model in found if usable(model)] or found
    provider, slash, rest = wanted.partition("/")
    if slash and (best := _best(_containing(rest, [model for model in models if model.provider.lower() == provider]))):
        return best
    matching = _containing(wanted, models)
    matching = [model for model in matching if usable(model)] or matching
    return _best([model for model in matching if model.provider == matching[0].provider])


def _exact(name: str, models: Sequence[Model]) -> list[Model]:
    wanted = name.lower()
    full = [model for model in models if f"{model.provider}/{model.id}".lower() == wanted]
    return full[:1] or [model for model in models if model.id.lower() == wanted]


def _containing(words: str, models: Sequence[Model]) -> list[Model]:
    return [model for model in models if words in model.id.lower() or words in model.name.lower()]


def _best(models: Sequence[Model]) -> list[Model]:
    current = [model for model in models if model.id.endswith("-latest") or not re.search(_DATED, model.id)]
    return sorted(current or models, key=lambda model: model.id)[-1:]


def _globbed(pattern: str, models: Sequence[Model]) -> list[ModelMatch]:
    for glob, level in reversed(split_level(pattern.lower())):
        found = [
            ModelMatch(model, level)
            for model in models
            if fnmatch.fnmatchcase(f"{model.provider}/{model.id}".lower(), glob)
            or fnmatch.fnmatchcase(model.id.lower(), glob)
        ]
        if found:
            return found
    return []
