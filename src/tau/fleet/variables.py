"""The environment of attempts. Of a worker's environment, an agent sees only what tau and programs need, and its
commands see only what programs need; of other variables both see those that the task names in `env`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tau.core.checks.secrets import encoded_forms, mask_forms
from tau.records.fleet import Task
from tau.store.config_values import variables_in
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
KEYS = {name for names in KEY_VARIABLES.values() for name in names}
KEYS |= {name for groups in AMBIENT_VARIABLES.values() for group in groups for name in group}
KEYS |= set(SECRET_VARIABLES)


class WorkerVariables:
    """`models` is the models.json of the worker, whose keys may be the names of variables."""

    def __init__(self, environment: Mapping[str, str], models: Path) -> None:
        self._all = environment
        self._of_models = set(_variables_of(read_models(models)[0])) & environment.keys()
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
