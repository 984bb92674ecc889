"""Credentials of `tau serve`: the main token, named tokens, logins of browsers and one-time login codes.

    <agent dir>/serve/token         the main token, scope admin, as text
    <agent dir>/serve/tokens.json   named tokens
    <agent dir>/serve/logins.json   logins of browsers; they expire
    <agent dir>/serve/codes.json    login codes: valid once, for five minutes

Apart from the main token, which programs of this user read, only hashes are stored. All files are 0600 in a folder
0700; a file that others could have read or written, a link, or a file of another user is refused: its secrets are not
secret. Every process of the user may change the files (`tau serve token`, `tau serve url`); a running server notices.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from tau.errors import UsageError
from tau.records.base import BadRecord, Record, decode, encode
from tau.records.host_commands import Scope
from tau.serve.access import Access
from tau.serve.request_checks import TOKEN_PREFIX
from tau.store.files import locked, make_folder, read_small, replace_file

PRIVATE_MODE = 0o600
TOKEN_BYTES = 32
CODE_BYTES = 16
CODE_LIFETIME_S = 5 * 60.0
LOGIN_LIFETIME_S = 30 * 24 * 3600.0
MAX_STORED = 1000  # in one file; the oldest are dropped
MAX_NAME = 64
MAIN = "main"

Kind = Literal["tokens", "logins", "codes"]


class Stored(Record):
    """A credential as it is stored: never the secret itself. Times are in seconds since 1970."""

    id: str
    name: str
    scope: Scope
    sha256: str
    created: float
    expires: float | None = None


class StoredList(Record):
    credentials: list[Stored] = []


class Credentials:
    """The files in a folder. `now` returns the time in seconds since 1970."""

    def __init__(self, folder: Path, now: Callable[[], float]) -> None:
        self.folder = folder
        self._now = now
        self._known: dict[str, tuple[Stored, str]] = {}  # by hash: the entry, and its credential id
        self._versions: dict[str, tuple[int, int, int] | None] = {}
        self._reloading = threading.Lock()  # logins are made in threads

    # For the server.

    def prepare(self) -> None:
        """Create the folder and the main token, and check what is there. Raises UsageError."""
        make_folder(self.folder)
        self._check_folder()
        if not os.path.lexists(self.folder / "token"):
            _create_private(self.folder / "token", new_token().encode() + b"\n")
        self.reload()

    def reload(self) -> bool:
        """Read files that have changed. Returns True if one had. Raises UsageError for a file that is not private."""
        with self._reloading:  # what was read earlier must not replace what was read later
            versions = {name: _version(self.folder / name) for name in ("token", "tokens.json", "logins.json")}
            if versions == self._versions:
                return False
            known = {digest(self.main_token()): (Stored(MAIN, MAIN, "admin", "", 0.0), MAIN)}
            for kind in ("tokens", "logins"):
                known.update({one.sha256: (one, f"{kind[:-1]}:{one.id}") for one in self._read(kind)})
            self._known, self._versions = known, versions
            return True

    def authenticate(self, token: str) -> Access | None:
        """Who has this token. Compares hashes, all of them, in constant time."""
        wanted, found = digest(token), None
        for known, entry in self._known.items():
            if hmac.compare_digest(known, wanted):
                found = entry
        if found is None or self._expired(found[0]):
            return None
        return Access(found[0].name, found[0].scope, found[1])

    def valid(self, credential: str) -> bool:
        """Whether a credential has neither been revoked nor expired."""
        return any(name == credential and not self._expired(entry) for entry, name in self._known.values())

    def redeem_code(self, code: str, name: str) -> str | None:
        """Exchange a login code for a token of its own. None if the code is wrong, used or too old."""
        wanted, found = digest(code), None
        with locked(self.folder / "codes.json"):
            codes = self._read("codes")
            for one in codes:
                if hmac.compare_digest(one.sha256, wanted) and not self._expired(one):
                    found = one
            if found is None:
                return None
            self._write("codes", [one for one in codes if one is not found and not self._expired(one)])
        return self._add("logins", name or "browser", found.scope, LOGIN_LIFETIME_S)

    # For the command line, and the server.

    def main_token(self) -> str:
        try:
            text = _read_private(self.folder / "token").decode("ascii", "replace").strip()
        except FileNotFoundError:
            raise UsageError(f"There is no {self.folder / 'token'}: start tau serve once.") from None
        if len(text) < 32:
            raise UsageError(f"{self.folder / 'token'} does not contain a token: delete it and start tau serve again.")
        return text

    def new_token(self, name: str, scope: Scope) -> str:
        """Add a named token. Returns its text, which is stored nowhere."""
        if not name or len(name) > MAX_NAME or not name.isprintable():
            raise UsageError(f"A token needs a name of 1 to {MAX_NAME} printable characters.")
        if name == MAIN or any(one.name == name for one in self._read("tokens")):
            raise UsageError(f'There is a token named "{name}" already. Revoke it first, or choose another name.')
        return self._add("tokens", name, scope, None)

    def new_code(self, scope: Scope = "admin") -> str:
        """Add a login code. Returns its text."""
        code = secrets.token_urlsafe(CODE_BYTES)
        self._store("codes", "code", scope, digest(code), CODE_LIFETIME_S)
        return code

    def stored(self) -> list[tuple[str, Stored]]:
        """Named tokens and logins, each with its kind."""
        return [(kind[:-1], one) for kind in ("tokens", "logins") for one in self._read(kind) if not self._expired(one)]

    def revoke(self, name: str) -> int:
        """Remove the tokens and logins with this name or id. The main token is replaced. Returns how many."""
        if name == MAIN:
            self._check_folder()
            with locked(self.folder / "token"):
                _read_private(self.folder / "token")
                replace_file(self.folder / "token", new_token().encode() + b"\n")
            return 1
        return sum(self._remove(kind, lambda one: name in (one.name, one.id)) for kind in ("tokens", "logins"))

    def remove_login(self, credential: str) -> None:
        """Log out: remove one login or token by its credential id."""
        kind, _, wanted = credential.partition(":")
        if kind == "login":
            self._remove("logins", lambda one: one.id == wanted)

    # Files.

    def _add(self, kind: Kind, name: str, scope: Scope, lifetime_s: float | None) -> str:
        token = new_token()
        self._store(kind, name[:MAX_NAME], scope, digest(token), lifetime_s)
        return token

    def _store(self, kind: Kind, name: str, scope: Scope, sha256: str, lifetime_s: float | None) -> None:
        now = self._now()
        expires = None if lifetime_s is None else now + lifetime_s
        new = Stored(secrets.token_hex(4), name, scope, sha256, now, expires)
        with locked(self._path(kind)):
            kept = [one for one in self._read(kind) if not self._expired(one)]
            self._write(kind, [*kept[-MAX_STORED + 1 :], new])
        self.reload_if_loaded()

    def _remove(self, kind: Kind, matches: Callable[[Stored], bool]) -> int:
        if not os.path.exists(self._path(kind)):
            return 0
        with locked(self._path(kind)):
            all_of_them = self._read(kind)
            kept = [one for one in all_of_them if not matches(one)]
            if len(kept) < len(all_of_them):
                self._write(kind, kept)
        self.reload_if_loaded()
        return len(all_of_them) - len(kept)

    def reload_if_loaded(self) -> None:
        if self._versions:
            self.reload()

    def _read(self, kind: Kind) -> list[Stored]:
        path = self._path(kind)
        try:
            data = _read_private(path)
            return decode(StoredList, data).credentials if data else []  # it is empty at the moment of its creation
        except FileNotFoundError:
            return []
        except BadRecord as error:
            raise UsageError(f"{path} cannot be read: {error}. Delete it to start without {kind}.") from None

    def _write(self, kind: Kind, stored: list[Stored]) -> None:
        path = self._path(kind)
        if not os.path.lexists(path):
            _create_private(path, b"")
        replace_file(path, encode(StoredList(stored)) + b"\n")

    def _path(self, kind: Kind) -> Path:
        return self.folder / f"{kind}.json"

    def _expired(self, stored: Stored) -> bool:
        return stored.expires is not None and stored.expires <= self._now()

    def _check_folder(self) -> None:
        state = os.stat(self.folder)
        if os.name == "posix" and (state.st_uid != os.getuid() or state.st_mode & 0o077):
            raise UsageError(f"{self.folder} must belong to you and be accessible to you alone: chmod 700 it.")


def new_token() -> str:
    return TOKEN_PREFIX + secrets.token_urlsafe(TOKEN_BYTES)


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _create_private(path: Path, data: bytes) -> None:
    """Create a file that only the user can read. It does not exist: links are not followed."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), PRIVATE_MODE)
    except FileExistsError:  # another process was faster
        return
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _read_private(path: Path) -> bytes:
    """Read a file of this user that no other user can read. Raises UsageError if it is anything else."""
    found = os.lstat(path)
    remedy = "Delete it: its secrets may be known to others. New ones are created when they are needed."
    if not stat.S_ISREG(found.st_mode):
        raise UsageError(f"{path} is not a regular file. {remedy}")
    if os.name == "posix" and found.st_uid != os.getuid():
        raise UsageError(f"{path} belongs to another user. {remedy}")
    if os.name == "posix" and found.st_mode & 0o077:
        raise UsageError(f"{path} is accessible to other users (mode {found.st_mode & 0o777:04o}). {remedy}")
    return read_small(path)


def _version(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_mode
