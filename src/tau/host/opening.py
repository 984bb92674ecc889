"""Put a session together from flags, files and the environment."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from tau.core.matching import as_level
from tau.errors import ModelError, UsageError
from tau.host.machine import LocalMachine
from tau.host.models import Models
from tau.host.session import Client, Session, Surroundings
from tau.llm import catalog
from tau.llm.http import Http
from tau.llm.scripted import read_script
from tau.records.models import LEVELS, ThinkingLevel
from tau.records.settings import Settings
from tau.store.keys import VARIABLES, Keys
from tau.store.models import read_models
from tau.store.settings import SettingsFile
from tau.tools.table import DEFAULT, TOOLS

log = logging.getLogger(__name__)
SECRETS = ("*_API_KEY", "*_TOKEN", "*SECRET*", "*PASSWORD*", "*CREDENTIALS*")


class Wishes(NamedTuple):
    """What the caller wants of a session; None and empty mean: the usual."""

    model: str | None = None
    provider: str | None = None
    models: Sequence[str] = ()
    thinking: str | None = None
    key: str | None = None
    tools: Sequence[str] | None = None
    script: str | None = None


class Opening(NamedTuple):
    """Everything read and decided; a session can be made of it."""

    settings: Settings
    settings_file: SettingsFile
    models: Models
    wishes: Wishes
    script: bytes
    warnings: list[str]

    def session(self, client: Client) -> tuple[Session, LocalMachine, Http]:
        settings = self.settings
        filters = settings.child_environment.filter_secrets
        machine = LocalMachine(
            shell_path=settings.shell_path,
            prefix=settings.shell_command_prefix,
            env=without_secrets(os.environ, self.models.keys) if filters else None,
        )
        http = Http(settings.http_idle_timeout_ms / 1000, settings.http_connect_timeout_ms / 1000)
        names = DEFAULT if self.wishes.tools is None else self.wishes.tools
        tools = {name: TOOLS[name] for name in names if name in TOOLS}
        around = Surroundings(os.getcwd(), machine, http, tools, self.settings_file, self.script)
        return Session(around, settings, self.models, client), machine, http


def read_up(agent_dir: Path, wishes: Wishes, environment: Mapping[str, str] = os.environ) -> Opening:
    """Read the user's files and choose a model. Raises UsageError for what the caller must mend."""
    settings_file = SettingsFile(agent_dir / "settings.json")
    settings = settings_file.read()
    keys = Keys(agent_dir / "auth.json", environment)
    models, warnings = known_models(agent_dir, keys)
    warnings += [*settings_file.problems, *keys.problems]
    for name in wishes.tools or ():
        if name not in TOOLS:
            warnings.append(f'Unknown tool "{name}". Valid tools: {", ".join(TOOLS)}')
    warnings += models.choose(
        settings,
        pattern=wishes.model,
        provider=wishes.provider,
        scoped=wishes.models,
        level=_level(wishes.thinking, warnings),
    )
    if wishes.key is not None:
        if models.current is None or not (wishes.model or wishes.provider or wishes.models):
            raise UsageError("--api-key requires a model to be specified via --model, --provider/--model, or --models")
        keys.give(models.current.provider, wishes.key)
    return Opening(settings, settings_file, models, wishes, _script(models, wishes.script), warnings)


def without_secrets(environment: Mapping[str, str], keys: Keys) -> dict[str, str]:
    """What a command may inherit: no variable that is named like a secret, or that holds a provider's key."""
    of_providers = {name for names in VARIABLES.values() for name in names}
    of_providers |= {source.strip("${}") for source in keys.configured.values()}
    return {
        name: value
        for name, value in environment.items()
        if name not in of_providers and not any(fnmatchcase(name.upper(), pattern) for pattern in SECRETS)
    }


def known_models(agent_dir: Path, keys: Keys) -> tuple[Models, list[str]]:
    path = agent_dir / "models.json"
    content, trouble = read_models(path)
    if trouble:
        return Models(catalog.BUILT_IN, keys), [trouble]
    if content is None:
        return Models(catalog.BUILT_IN, keys), []
    given, problems = catalog.providers(content)
    known, more = catalog.merged(catalog.BUILT_IN, given)
    keys.configured = {name: provider.api_key for name, provider in given.items() if provider.api_key}
    return Models(known, keys), [f"{problem}\n\nFile: {path}" for problem in problems + more]


def _level(wanted: str | None, warnings: list[str]) -> ThinkingLevel | None:
    if wanted is None:
        return None
    level = as_level(wanted)
    if level is None:
        warnings.append(f'Invalid thinking level "{wanted}". Valid values: {", ".join(LEVELS)}')
    return level


def _script(models: Models, path: str | None) -> bytes:
    scripted = models.current is not None and models.current.api == "scripted"
    if path is None:
        if scripted:
            raise UsageError("--model scripted needs --script FILE")
        return b""
    try:
        script = Path(path).read_bytes()
        if scripted:
            read_script(script)
    except OSError as error:
        raise UsageError(f"--script {path}: {error.strerror}") from None
    except ModelError as error:
        raise UsageError(f"--script {path}: {error}") from None
    return script
