"""API keys: from the command line, auth.json, the environment, or models.json, in this order.

A configured value may be `!command` (its output), `$NAME` or the bare name of an
environment variable, or the key itself.
"""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tau.records.base import BadRecord, parse

log = logging.getLogger(__name__)
COMMAND_TIMEOUT = 10
VARIABLES = {
    "anthropic": ("ANTHROPIC_OAUTH_TOKEN", "ANTHROPIC_API_KEY"),
}


class Keys:
    def __init__(self, auth_file: Path, environment: Mapping[str, str] = os.environ) -> None:
        self._environment = environment
        self._given: dict[str, str] = {}
        self.configured: dict[str, str] = {}
        self.problems: list[str] = []
        self._saved = self._read(auth_file)

    def give(self, provider: str, key: str) -> None:
        """A key from the command line: for this process only, before all others."""
        self._given[provider] = key

    def has(self, provider: str) -> bool:
        """Whether there is a key, without running anything to get it."""
        source = self._source(provider)
        return source is not None and (source.startswith("!") or bool(self._value(source)))

    def takes_time(self, provider: str) -> bool:
        """Whether `get` runs a command, and so is to be called off the event loop."""
        return (self._source(provider) or "").startswith("!")

    def get(self, provider: str) -> str | None:
        """The key."""
        source = self._source(provider)
        if source is None:
            return None
        return self._output(source[1:]) if source.startswith("!") else self._value(source)

    def _source(self, provider: str) -> str | None:
        if provider in self._given:
            return self._given[provider]
        if provider in self._saved:
            return self._saved[provider]
        for name in VARIABLES.get(provider, ()):
            if self._environment.get(name):
                return f"${name}"
        return self.configured.get(provider)

    def _value(self, source: str) -> str | None:
        if source.startswith("$"):
            return self._environment.get(source[1:].strip("{}")) or None
        return self._environment.get(source) or source or None

    def _output(self, command: str) -> str | None:
        try:
            done = subprocess.run(
                command, shell=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=COMMAND_TIMEOUT, check=True
            )
        except (subprocess.SubprocessError, OSError) as error:
            log.warning("the command for an API key failed: %s", error)
            return None
        return done.stdout.decode("utf-8", "replace").strip() or None

    def _read(self, path: Path) -> dict[str, str]:
        try:
            content: Any = parse(path.read_bytes())
            if not isinstance(content, dict):
                raise BadRecord("expected a JSON object")
        except FileNotFoundError:
            return {}
        except (OSError, BadRecord) as error:
            self.problems.append(f"{path}: {error}")
            return {}
        return {
            provider: entry["key"]
            for provider, entry in content.items()
            if isinstance(entry, dict) and entry.get("type") == "api_key" and isinstance(entry.get("key"), str)
        }
