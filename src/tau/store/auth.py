"""auth.json: the user's keys and OAuth logins, readable by the user only.

A file that cannot be read is reported and left as it is. It is never overwritten, because it may be the only copy of
the keys.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tau.records.base import BadRecord, Value, parse
from tau.store.files import locked, locked_for_long, read_small, remove_drafts, replace_file

PRIVATE_MODE = 0o600
LOCK_TIMEOUT_S = 30.0  # longer than a token request takes, during which another process holds the lock


class OAuthLogin(Value):
    """Tokens of an OAuth login. `expires` is in milliseconds, a little before the server's time."""

    access: str
    refresh: str
    expires: float

    def valid(self, now_ms: float) -> bool:
        return now_ms < self.expires

    def __repr__(self) -> str:
        """Without secrets, for logs."""
        return f"OAuthLogin(expires={self.expires!r})"

    @classmethod
    def of(cls, entry: Any) -> OAuthLogin | None:
        """The login in an entry of auth.json; None for any other entry."""
        if not isinstance(entry, dict) or entry.get("type") != "oauth":
            return None
        access, refresh, expires = entry.get("access"), entry.get("refresh", ""), entry.get("expires")
        if not isinstance(access, str) or not access or not isinstance(refresh, str):
            return None
        if not isinstance(expires, int | float) or isinstance(expires, bool):
            return None
        return cls(access, refresh, expires)

    def stored_over(self, entry: Any) -> dict[str, Any]:
        """The entry for auth.json. Fields of the previous entry that another program added are kept."""
        kept = entry if isinstance(entry, dict) and entry.get("type") == "oauth" else {}
        return {**kept, "type": "oauth", "access": self.access, "refresh": self.refresh, "expires": self.expires}


class LockedEntry(Value):
    """An entry of auth.json while its file is locked. `write` replaces it."""

    entry: Any
    write: Callable[[dict[str, Any]], None]


class AuthFile:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[str] = []

    def read(self) -> dict[str, Any]:
        """Return the entry of each provider; an empty dict if the file cannot be read."""
        try:
            self._make_private()
            return self.load()
        except (OSError, BadRecord) as error:
            self.problems.append(f"{self.path}: {error}")
            return {}

    def load(self) -> dict[str, Any]:
        """The same, but raises BadRecord or OSError if the file cannot be read."""
        try:
            return self._content()
        except BadRecord as broken:
            try:
                with locked(self.path):  # another program may have been writing
                    return self._content()
            except OSError:  # the folder cannot be written, or the lock does not become free
                raise broken from None

    def change(self, provider: str, entry: dict[str, Any] | None) -> None:
        """Set or remove the entry of one provider. On BadRecord or OSError the file is unchanged."""
        with locked(self.path, LOCK_TIMEOUT_S):
            self._write(provider, entry)

    @contextmanager
    def exclusive(self, provider: str) -> Iterator[LockedEntry]:
        """Hold the lock while one entry is read, renewed by a server and written."""
        with locked_for_long(self.path, LOCK_TIMEOUT_S):
            yield LockedEntry(self._content().get(provider), partial(self._write, provider))

    def _write(self, provider: str, entry: dict[str, Any] | None) -> None:
        content = self._content()
        others = {name: other for name, other in content.items() if name != provider}
        changed = others if entry is None else {**others, provider: entry}
        remove_drafts(self.path)  # they contain keys, perhaps of an entry that is removed now
        replace_file(self.path, json.dumps(changed, indent=2).encode(), PRIVATE_MODE)

    def _content(self) -> dict[str, Any]:
        try:
            content = parse(read_small(self.path).removeprefix(b"\xef\xbb\xbf"))
        except FileNotFoundError:
            return {}
        if not isinstance(content, dict):
            raise BadRecord("expected a JSON object")
        return content

    def _make_private(self) -> None:
        try:
            found = self.path.stat().st_mode
        except FileNotFoundError:
            return
        if os.name != "posix" or not found & 0o077 or not stat.S_ISREG(found):  # a device is not ours to change
            return
        try:
            os.chmod(self.path, PRIVATE_MODE)
        except OSError as error:  # the file may be mounted, or belong to another user
            self.problems.append(f"{self.path}: other users can read it, and this cannot be changed: {error.strerror}")
        else:
            self.problems.append(f"{self.path}: other users could read it; now only you can (mode 600)")
