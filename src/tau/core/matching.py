"""Find the model a person means: "provider/id:thinking", a part of a name, a glob.

An exact name always wins. Of several that contain the words, the one without a
date in its id, since that is the one its makers keep current.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tau.records.models import LEVELS, Model, ThinkingLevel

_DATED = re.compile(r"-\d{8}$")


@dataclass(frozen=True)
class Match:
    model: Model
    level: ThinkingLevel | None = None


def find(pattern: str, models: Sequence[Model], provider: str | None = None) -> Match | None:
    """The model `pattern` means, among those of `provider` if it is given."""
    candidates = [model for model in models if provider is None or model.provider.lower() == provider.lower()]
    if model := _named(pattern, candidates):
        return Match(model)
    head, colon, tail = pattern.rpartition(":")
    if colon and (level := as_level(tail)) and (model := _named(head, candidates)):
        return Match(model, level)
    return None


def scope(patterns: Sequence[str], models: Sequence[Model]) -> tuple[list[Match], list[str]]:
    """The models a list of patterns selects, each once, and the patterns that select none."""
    chosen: dict[tuple[str, str], Match] = {}
    unmatched = []
    for pattern in patterns:
        found = _globbed(pattern, models) if re.search(r"[*?\[]", pattern) else [find(pattern, models)]
        if not any(found):
            unmatched.append(pattern)
        for match in found:
            if match is not None:
                chosen.setdefault((match.model.provider, match.model.id), match)
    return list(chosen.values()), unmatched


def as_level(text: str) -> ThinkingLevel | None:
    return next((level for level in LEVELS if level == text), None)


def _named(name: str, models: Sequence[Model]) -> Model | None:
    wanted = name.lower()
    exact = [model for model in models if wanted in (f"{model.provider}/{model.id}".lower(), model.id.lower())]
    full = [model for model in exact if f"{model.provider}/{model.id}".lower() == wanted]
    if full or len(exact) == 1:
        return (full or exact)[0]
    if exact:
        return None  # several providers have it: the person must say which
    provider, slash, rest = wanted.partition("/")
    if slash and (own := [model for model in models if model.provider.lower() == provider]):
        return _best([model for model in own if rest in model.id.lower() or rest in model.name.lower()])
    return _best([model for model in models if wanted in model.id.lower() or wanted in model.name.lower()])


def _best(models: Sequence[Model]) -> Model | None:
    current = [model for model in models if model.id.endswith("-latest") or not _DATED.search(model.id)]
    return max(current or models, key=lambda model: model.id, default=None)


def _globbed(pattern: str, models: Sequence[Model]) -> list[Match | None]:
    head, colon, tail = pattern.rpartition(":")
    level = as_level(tail) if colon else None
    glob = (head if level else pattern).lower()
    return [
        Match(model, level)
        for model in models
        if fnmatchcase(f"{model.provider}/{model.id}".lower(), glob) or fnmatchcase(model.id.lower(), glob)
    ]
