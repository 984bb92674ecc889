"""The user's settings.json: read with defaults, changed by a locked merge.

A file that cannot be read, or says what no setting can be, is reported and left
exactly as it is: the program starts with defaults and does not write to it.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from tau.records.base import BadRecord, decode, encode, parse
from tau.records.settings import Settings
from tau.store.files import locked, replaced

log = logging.getLogger(__name__)


class SettingsFile:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[str] = []

    def read(self) -> Settings:
        """What the file says; for what it says wrongly, the default."""
        try:
            content = self._content()
        except BadRecord as error:
            self.problems.append(f"{self.path}: {error}")
            return Settings()
        while True:
            try:
                return decode(Settings, encode(content))
            except BadRecord as error:
                key = str(error).split(":")[0].split(".")[0].split("[")[0]
                self.problems.append(f"{self.path}: {error}")
                if key not in content:
                    return Settings()
                del content[key]

    def change(self, changes: dict[str, Any]) -> None:
        """Merge `changes` into the file as it is now. Blocks; raises OSError if it cannot be written."""
        if self.problems:
            log.warning("settings not saved: %s", self.problems[0])
            return
        with locked(self.path):
            try:
                content = self._content()
            except BadRecord as error:
                log.warning("settings not saved, %s is broken: %s", self.path, error)
                return
            merged = _merged(content, changes)
            if merged != content:
                replaced(self.path, _text(merged))

    def _content(self) -> dict[str, Any]:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise BadRecord(error.strerror or str(error)) from None
        if not data.strip():
            return {}
        content = parse(data.removeprefix(b"\xef\xbb\xbf"))
        if not isinstance(content, dict):
            raise BadRecord("expected a JSON object")
        return content


def _text(content: dict[str, Any]) -> bytes:
    try:
        return json.dumps(content, indent=2, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # a lone surrogate: JSON can carry it only escaped
        return json.dumps(content, indent=2).encode()


def _merged(content: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    merged = dict(content)
    for key, value in changes.items():
        old = merged.get(key)
        merged[key] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
    return merged
