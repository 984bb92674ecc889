"""auth.json: the user's keys, readable by the user only.

A file that cannot be read is reported and left as it is. It is never overwritten, because it may be the only copy of
the keys.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tau.records.base import BadRecord, parse
from tau.store.files import locked, replace_file

PRIVATE_MODE = 0o600


class AuthFile:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[str] = []

    def read(self) -> dict[str, Any]:
        """Return the entry of each provider; an empty dict if the file cannot be read."""
        try:
            self._make_private()
            try:
                return self._content()
            except BadRecord:
                with locked(self.path):  # another program may have been writing
                    return self._content()
        except (OSError, BadRecord) as error:
            self.problems.append(f"{self.path}: {error}")
            return {}

    def change(self, provider: str, entry: dict[str, Any] | None) -> None:
        """Set or remove the entry of one provider. On BadRecord or OSError the file is unchanged."""
        with locked(self.path):
            content = self._content()
            others = {name: other for name, other in content.items() if name != provider}
            changed = others if entry is None else {**others, provider: entry}
            replace_file(self.path, json.dumps(changed, indent=2).encode())
            os.chmod(self.path, PRIVATE_MODE)

    def _content(self) -> dict[str, Any]:
        try:
            content = parse(self.path.read_bytes().removeprefix(b"\xef\xbb\xbf"))
        except FileNotFoundError:
            return {}
        if not isinstance(content, dict):
            raise BadRecord("expected a JSON object")
        return content

    def _make_private(self) -> None:
        try:
            open_to_others = os.name == "posix" and self.path.stat().st_mode & 0o077
        except FileNotFoundError:
            return
        if not open_to_others:
            return
        try:
            os.chmod(self.path, PRIVATE_MODE)
        except OSError as error:  # the file may be mounted, or belong to another user
            self.problems.append(f"{self.path}: other users can read it, and this cannot be changed: {error.strerror}")
        else:
            self.problems.append(f"{self.path}: other users could read it; now only you can (mode 600)")
