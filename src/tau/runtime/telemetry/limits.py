"""What keeps telemetry small and private: few values per attribute of a metric, and no keys in names from outside."""

from __future__ import annotations

from collections.abc import Callable, Collection
from time import monotonic
from typing import Final

from tau.core.checks.redaction import Redaction
from tau.core.checks.secrets import encoded_forms, mask_forms
from tau.runtime.telemetry.names import OTHER

MAX_TOOL_NAMES: Final = 200  # of extensions and MCP servers
MAX_NAMES: Final = 100  # of models, providers and servers
MAX_NAME_LENGTH: Final = 200
READ_EVERY_S: Final = 1.0  # the keys, which a login may change; a turn masks several names


class LimitedNames:
    """Passes the first names; the rest are one name. A metric must not grow with what a server answers."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._seen: set[str] = set()

    def __call__(self, name: str) -> str:
        if name in self._seen:
            return name
        if len(self._seen) >= self._most:
            return OTHER
        self._seen.add(name)
        return name


class Masking:
    """Masks known keys in every encoded form, and what looks like a key."""

    def __init__(self, secrets: Callable[[], Collection[str]]) -> None:
        self.secrets = secrets
        self._known: frozenset[str] = frozenset()
        self._forms: set[str] = set()
        self._read_at = -READ_EVERY_S
        self._patterns = Redaction((), "")

    def __call__(self, text: str) -> str:
        if monotonic() - self._read_at > READ_EVERY_S:
            self._read()
        return self._patterns.text(mask_forms(self._forms, text))

    def _read(self) -> None:
        self._read_at = monotonic()
        known = frozenset(self.secrets())
        if known != self._known:
            self._known = known
            self._forms = {form for secret in known if secret for form in encoded_forms(secret)}

    def name(self, text: str) -> str:
        """An identifier that a server chose: of an answer, a call, a model."""
        return self(text[:MAX_NAME_LENGTH])
