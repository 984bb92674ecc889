"""Find the model that a pattern names: "provider/id:thinking", a part of a name, a glob.

An exact name always wins. Among several partial matches, an id without a date wins, because vendors keep that one
current. If several providers have a matching model, those with credentials come first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

from tau.records.base import Value
from tau.records.models import LEVELS, Model, ThinkingLevel

_DATED = re.compile(r"-\d{8}$")
_GLOB = re.compile(r"[*?\[]")


class Match(Value):
    model: Model
    level: ThinkingLevel | None = None


class Several(Value):
    """Several providers have a model with exactly this id, and the pattern does not name a provider."""

    models: list[Model]
    level: ThinkingLevel | None = None


def _never(model: Model) -> bool:
    return False


def find(
    pattern: str, models: Sequence[Model], provider: str | None = None, usable: Callable[[Model], bool] = _never
) -> Match | Several | None:
    """The model that `pattern` names, among those of `provider` if it is given."""
    candidates = [model for model in models if provider is None or model.provider.lower() == provider.lower()]
    for name, level in readings(pattern):
        found = _named(name, candidates, usable)
        if found:
            return Match(found[0], level) if len(found) == 1 else Several(found, level)
    return None


def exact(pattern: str, models: Sequence[Model]) -> Match | None:
    """The only model with exactly this id, or provider and id."""
    for name, level in readings(pattern):
        found = _exact(name, models)
        if len(found) == 1:
            return Match(found[0], level)
    return None


def readings(pattern: str) -> list[tuple[str, ThinkingLevel | None]]:
    """Interpretations of a pattern: the whole as a name, since ids may contain colons, and a name with a level."""
    head, colon, tail = pattern.rpartition(":")
    level = as_level(tail) if colon else None
    return [(pattern, None), *([(head, level)] if level else [])]


def scope(patterns: Sequence[str], models: Sequence[Model]) -> tuple[list[Match], list[str]]:
    """The models that a list of patterns selects, each once, and warnings for the user."""
    chosen: dict[tuple[str, str], Match] = {}
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


def as_level(text: str) -> ThinkingLevel | None:
    return next((level for level in LEVELS if level == text), None)


def _selected(pattern: str, models: Sequence[Model]) -> list[Match]:
    if _GLOB.search(pattern):
        return _globbed(pattern, models)
    found = find(pattern, models)
    if isinstance(found, Several):
        return [Match(model, found.level) for model in found.models]
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
    current = [model for model in models if model.id.endswith("-latest") or not _DATED.search(model.id)]
    return sorted(current or models, key=lambda model: model.id)[-1:]


def _globbed(pattern: str, models: Sequence[Model]) -> list[Match]:
    for glob, level in reversed(readings(pattern.lower())):
        found = [
            Match(model, level)
            for model in models
            if fnmatchcase(f"{model.provider}/{model.id}".lower(), glob) or fnmatchcase(model.id.lower(), glob)
        ]
        if found:
            return found
    return []
