"""Take private text out of JSON values for a bug report: keys and tokens always, other text on request."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from tau.core.checks.secrets import MASK, is_secret, mask_secrets

# Fields of session entries whose text says what happened, and nothing of what was said.
STRUCTURE = frozenset(
    (
        *("type", "role", "id", "parentId", "targetId", "firstKeptEntryId", "fromId", "toolCallId", "toolName", "name"),
        *("timestamp", "version", "provider", "model", "modelId", "api", "stopReason", "thinkingLevel", "customType"),
        *("mimeType", "responseModel"),
    )
)
# Keys and tokens of well-known services, and private keys.
_TOKEN = re.compile(
    r"\b(?:sk|pk|rk|ghp|gho|ghs|github_pat|glpat|xox[abpr]|AIza|AKIA|hf|npm|pypi)[-_]?[A-Za-z0-9_-]{16,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*",
    re.DOTALL,
)


class Redaction:
    """`secrets` are the known keys; `home` is the folder of the user, which is written as `~`."""

    def __init__(self, secrets: Collection[str], home: str, *, keep_text: bool = True) -> None:
        self._secrets = secrets
        self._home = home
        self._keep_text = keep_text

    def text(self, text: str) -> str:
        """The text with keys and tokens masked."""
        masked = _TOKEN.sub(MASK, mask_secrets(text, self._secrets))
        return masked.replace(self._home, "~") if len(self._home) > 1 else masked

    def value(self, value: Any, name: str = "") -> Any:
        """A JSON value; `name` is that of its field."""
        if isinstance(value, dict):
            return {key: self.value(one, key) for key, one in value.items()}
        if isinstance(value, list):
            return [self.value(one, name) for one in value]
        if not isinstance(value, str):
            return value
        if is_secret(name):
            return MASK
        if name == "data" or not (self._keep_text or name in STRUCTURE):
            return f"<{len(value)} characters>"
        return self.text(value)
