"""The models of this user, and the choice of the one to start with."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tau.core.agent.budgets import budget_problem, unknown_cost_error
from tau.core.models.patterns import parse_level
from tau.core.models.pricing import OFFLINE_APIS
from tau.errors import UsageError
from tau.llm.catalog import LOCAL_MODEL, Catalog, CatalogProblem, ProviderConfig, parse_providers
from tau.records.base import replace
from tau.records.models import THINKING_LEVELS, Model, ThinkingLevel
from tau.records.settings import Settings
from tau.runtime.app.options import SessionOptions
from tau.runtime.models import bundled
from tau.runtime.models.selection import ModelSelection
from tau.store.keys import Keys
from tau.store.models import problem_line, read_models


def choose_model(models: ModelSelection, settings: Settings, options: SessionOptions) -> list[str]:
    """Select the initial model, and return warnings for the user. Raises UsageError."""
    warnings: list[str] = []
    level = _level(options, warnings)
    warnings += models.choose(
        settings, pattern=options.model, provider=options.provider, scoped=options.models, level=level
    )
    if models.current == LOCAL_MODEL and not bundled.installed():
        raise UsageError(bundled.HOW_TO_INSTALL)
    if options.key is not None:
        if models.current is None or not (options.model or options.provider or options.models):
            raise UsageError("--api-key requires a model to be specified via --model, --provider/--model, or --models")
        models.keys.set_key(models.current.provider, options.key)
    if (trouble := budget_problem(options.budget) or unknown_cost_error(options.budget, models.current)) is not None:
        raise UsageError(trouble)
    return [*warnings, *_of_recording(options, models)]


def _level(options: SessionOptions, warnings: list[str]) -> ThinkingLevel | None:
    if options.thinking is None:
        return None
    level = parse_level(options.thinking)
    if level is None:
        problem = f'Invalid thinking level "{options.thinking}". Valid values: {", ".join(THINKING_LEVELS)}'
        if options.strict:
            raise UsageError(problem)
        warnings.append(problem)
    return level


def _of_recording(options: SessionOptions, models: ModelSelection) -> list[str]:
    if options.record is not None and options.replay is not None:
        raise UsageError("--record and --replay cannot go together: what is replayed was recorded already.")
    flag = "--record" if options.record is not None else "--replay" if options.replay is not None else None
    if flag is None or models.current is None or models.current.api not in OFFLINE_APIS:
        return []
    return [f"{flag}: {models.current.id} answers without a network, so there is nothing to {flag.removeprefix('--')}."]


def known_models(
    agent_dir: Path, keys: Keys, environment: Mapping[str, str] = os.environ, *, max_level: bool = True
) -> tuple[ModelSelection, list[str]]:
    """The models of this user, and the problems of the file that adds to them. `max_level`: see Catalog."""
    path = agent_dir / "models.json"
    content, trouble = read_models(path)
    if content is None:
        return ModelSelection(Catalog(environment=environment, max_level=max_level), keys), [trouble] if trouble else []
    given, problems = parse_providers(content)
    _use_keys(keys, given)
    return ModelSelection(Catalog(given, environment, max_level=max_level), keys), problem_texts(problems, path)


def reload_models(models: ModelSelection, content: Any, path: Path) -> list[str]:
    """Use the content of models.json as it is now, and return its problems.

    The current model and the scope are looked up again; providers of extensions stay.
    """
    given, problems = ({}, []) if content is None else parse_providers(content)
    models.catalog.reconfigure(given)
    _use_keys(models.keys, models.catalog.configured)
    if models.current is not None:
        models.current = _current_version(models.current, models.catalog)
    models.scoped = [replace(match, model=_current_version(match.model, models.catalog)) for match in models.scoped]
    return problem_texts(problems, path)


def _current_version(model: Model, catalog: Catalog) -> Model:
    """The model as the catalogue has it now; as it was if it is not in there any more."""
    if model.provider not in catalog.providers:
        return model
    return next((one for one in catalog.models_of(model.provider) if one.id == model.id), model)


def _use_keys(keys: Keys, given: Mapping[str, ProviderConfig]) -> None:
    """Use the keys and the other secrets of models.json."""
    keys.configured = {name: provider.api_key for name, provider in given.items() if provider.api_key}
    keys.refreshable = frozenset(name for name, provider in given.items() if provider.oauth_client is not None)
    keys.headers = [text for provider in given.values() for text in provider.headers.values()]
    keys.headers += [
        text for one in given.values() for model in one.models or () for text in (model.headers or {}).values()
    ]
    clients = [one.oauth_client for one in given.values() if one.oauth_client is not None]
    keys.headers += [client.client_secret for client in clients if client.client_secret]


def problem_texts(problems: Sequence[CatalogProblem], path: Path) -> list[str]:
    return [problem_text(problem, path) for problem in problems]


def problem_text(problem: CatalogProblem, path: Path) -> str:
    """File, line, field, and what is not used because of it."""
    return f"{path}:{problem_line(path, problem.place)}: {problem.text.rstrip('.')}. {problem.consequence}"
