"""The environment of attempts. Of a worker's environment, an agent sees only what tau and programs need, and its
commands see only what programs need; of other variables both see those that the task names in `env`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tau.core.checks.secrets import MIN_SECRET_LENGTH, encoded_forms, is_secret, mask_forms
from tau.errors import UsageError
from tau.records.base import encode
from tau.records.fleet import Task
from tau.store.config_values import is_command, looks_like_a_variable, variables_in
from tau.store.keys import AMBIENT_VARIABLES, KEY_VARIABLES, SECRET_VARIABLES
from tau.store.models import read_models

# For every program: who runs it, where it finds others, its language, and how it reaches the network.
FOR_PROGRAMS = tuple(
    """
    PATH HOME USER LOGNAME SHELL LANG LANGUAGE LC_* TZ TMPDIR TMP TEMP TERM COLORTERM NO_COLOR XDG_*
    HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy
    SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS
    """.split()
)
# For tau itself: its own variables, telemetry, and what the APIs of providers read.
FOR_TAU = (
    "PI_*",
    "TAU_*",
    "OTEL_*",
    "TRACEPARENT",
    "TRACESTATE",
    "AWS_*",
    "AZURE_OPENAI_*",
    "GOOGLE_*",
    "GCLOUD_*",
    "CLOUDFLARE_*",
    "OLLAMA_*",
)
WITH_KEYS = ("headers", "models", "modelOverrides")  # parts of a provider in models.json
MAX_MODELS_CHARS = 1_000_000  # a line to a worker has at most four megabytes
KEYS = {name for names in KEY_VARIABLES.values() for name in names}
KEYS |= {name for groups in AMBIENT_VARIABLES.values() for group in groups for name in group}
KEYS |= set(SECRET_VARIABLES)


class WorkerVariables:
    """`models` is the content of models.json, whose keys may be the names of variables."""

    def __init__(self, environment: Mapping[str, str], models: Any) -> None:
        self._all = environment
        self._of_models = set(_variables_of(models)) & environment.keys()
        for_tau = (*FOR_PROGRAMS, *FOR_TAU)
        known = KEYS | self._of_models
        self._secrets = {form for name in known if environment.get(name) for form in encoded_forms(environment[name])}
        self._base = {name: value for name, value in environment.items() if name in known or _fits(name, for_tau)}
        # By name and not by pattern: they are compared with every variable, for every attempt.
        self._hidden = sorted(name for name in self._of_models | self._base.keys() if not _fits(name, FOR_PROGRAMS))

    def mask(self, text: str) -> str:
        """A text for a log, without keys."""
        return mask_forms(self._secrets, text)

    def missing(self, task: Task) -> list[str]:
        """The variables that a task names and this worker lacks."""
        return [name for name in task.env if name not in self._all]

    def environment(self, task: Task) -> dict[str, str]:
        """For tau, which also needs keys."""
        return {**self._base, **{name: self._all[name] for name in task.env if name in self._all}}

    def settings(self, task: Task) -> dict[str, Any]:
        """The settings of a task, with those that hide keys and tau's own variables from its commands."""
        own = task.settings.get("childEnvironment")
        given: Mapping[str, Any] = own if isinstance(own, dict) else {}
        child = {
            "filterSecrets": True,
            **given,
            "secretNames": [*self._hidden, *given.get("secretNames", ())],
            "passNames": [*task.env, *given.get("passNames", ())],
        }
        return {**task.settings, "childEnvironment": child}


def models_for_workers(path: Path, *, with_keys: bool) -> str:
    """The text of models.json for workers; empty if there is no file. Raises UsageError.

    Without keys, each of them is replaced by a variable that the worker needs: `$MY_LAB_API_KEY` for "my-lab".
    """
    models, problem = read_models(path)
    if problem is not None:
        raise UsageError(problem.removesuffix(" The file is ignored."))
    if models is None:
        return ""
    providers = models.get("providers") if isinstance(models, dict) and not with_keys else None
    for name, provider in providers.items() if isinstance(providers, dict) else ():
        _withhold_keys(provider, name)
    text = encode(models).decode()
    if len(text) > MAX_MODELS_CHARS:
        raise UsageError(f"{path} has more than {MAX_MODELS_CHARS:,} characters: workers of a fleet do not take it.")
    return text


def _withhold_keys(content: Any, provider: str) -> None:
    """Replace the keys and secret headers of a provider and of its models."""
    for one in content if isinstance(content, list) else [content]:
        for name, value in one.items() if isinstance(one, dict) else ():
            if isinstance(value, str) and (name == "apiKey" or is_secret(name)) and _is_literal(value):
                words = re.sub(r"(?<=[a-z])(?=[A-Z])|\W", "_", f"{provider}_{name}")
                one[name] = f"${words.upper()}"
            elif name in WITH_KEYS:
                _withhold_keys(list(value.values()) if name == "modelOverrides" else value, provider)


def _is_literal(value: str) -> bool:
    """True for a secret itself: not a command, a variable, or a word such as EMPTY for servers without keys."""
    is_variable = len(variables_in(value)) > 1 or looks_like_a_variable(value) or value in os.environ
    return len(value) >= MIN_SECRET_LENGTH and not is_variable and not is_command(value)


def for_programs(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that every program needs, and none of the others."""
    return {name: value for name, value in environment.items() if _fits(name, FOR_PROGRAMS)}


def _fits(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _variables_of(content: Any) -> Iterator[str]:
    """The variables to which any text in a file may refer."""
    if isinstance(content, str):
        yield from variables_in(content)
    elif isinstance(content, dict):
        for one in content.values():
            yield from _variables_of(one)
    elif isinstance(content, list):
        for one in content:
            yield from _variables_of(one)
