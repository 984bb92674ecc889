"""What a program of an extension consists of: the files that its loader reads, and their digests.

One list for all who need it: trust is bound to the content of these files, `write`, `edit` and the sandbox keep them as
they are, and a restarted extension must have the same code as at its first load.

In Python that is the file or the folder: a file cannot import its neighbours. In TypeScript and JavaScript it is the
folder of an extension that has one of its own, and whatever its imports lead to, one by one: an entry may lie in a
folder as large as a whole project. Of a package in `node_modules`, a lock file that lists it has the digest.
A path that is computed at run time is not seen here; the host of Node (extension_api/node/loading.mjs) refuses it.

Not covered: files that an extension reads as data, programs that it starts, and for the restart folders that hold no
modules of its own (hidden ones, virtual environments).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tau.core.checks.sha256 import sha256_hex
from tau.errors import ExtensionFailure
from tau.records.base import BadRecord, Value, parse
from tau.store.files import read_small
from tau.store.settings import SettingsFile, read_layers

SUFFIXES = (".py", ".pyc", ".so", ".pyd")
NODE_SUFFIXES = (".ts", ".mts", ".cts", ".tsx", ".js", ".mjs", ".cjs", ".jsx", ".json", ".node", ".wasm")
MAX_FILES, MAX_BYTES, MAX_DEPTH = 4096, 64 * 1024 * 1024, 32
INSTALLED = "node_modules"
_NO_CODE = (".json", ".node", ".wasm")
# As in loading.mjs: the endings that the host tries, in this order.
_TYPESCRIPT_OF = {".js": (".ts", ".tsx"), ".mjs": (".mts",), ".jsx": (".tsx",), ".cjs": (".cts",)}
_ENDINGS = (".ts", ".js", ".mts", ".mjs", ".tsx", ".json", "/index.ts", "/index.js")
_IMPORTED = rb"""\b(?:from|import|require)\b\s*\(?\s*(?:/\*.{0,200}?\*/\s*)?(["'`])([^"'`\n\\]{1,300})\1"""
_RELATIVE = rb"""(["'`])(\.\.?/[^"'`\n\\]{1,300})\1"""  # also in new URL("./x.ts", import.meta.url)
_PACKAGE = re.compile(r"(?:@[\w.~-]+/)?[\w.~-]+(?=/|$)")
_OF_THE_HOST = re.compile(r"@(?:earendil-works|mariozechner)/pi-|(?:@sinclair/)?typebox(?:/|$)")
_OF_NODE = frozenset(
    "assert async_hooks buffer child_process cluster console constants crypto dgram diagnostics_channel dns domain "
    "events fs http http2 https inspector module net os path perf_hooks process punycode querystring readline repl "
    "stream string_decoder sys timers tls trace_events tty url util v8 vm wasi worker_threads zlib".split()
)
_DEPENDENCIES = ("dependencies", "optionalDependencies", "peerDependencies")
_LOCK_FILES = ("package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock")
MAX_LOCK_BYTES = 64 * 1024 * 1024


class ProjectFiles:
    """The files that a fingerprint is made of: those on disk. upcoming_changes.py has them as they will be."""

    def packages(self, cwd: Path) -> Sequence[Any]:
        """Return the list `packages` of the project's settings."""
        return read_layers(SettingsFile(cwd / ".pi" / "settings.json"), None).packages["user"]

    def exists(self, path: Path, *, follow: bool = False) -> bool:
        """With `follow`, a link that leads nowhere does not count."""
        return os.path.exists(path) if follow else os.path.lexists(path)

    def place(self, path: Path) -> Path | None:
        """Return where a file or folder is now; None if it is about to be removed."""
        return path

    def folder_identity(self, path: Path) -> tuple[int, int] | None:
        """Return None for a file. Raises OSError."""
        status = os.stat(path)
        return (status.st_dev, status.st_ino) if stat.S_ISDIR(status.st_mode) else None

    def names(self, path: Path) -> list[str]:
        """Return what is in a folder. Raises OSError."""
        return os.listdir(path)

    def read(self, path: Path, limit: int) -> bytes:
        """Raises OSError if the file is larger than `limit`, or not a file."""
        return read_small(path, limit)


ON_DISK = ProjectFiles()


class Program(Value):
    """`bound`: the files and folders whose content counts. `locked`: installed packages of which `locks`, which are in
    `bound`, have the digests. `absent`: what the loader would prefer to something that it finds, if it existed.
    """

    bound: Sequence[Path]
    locked: Sequence[Path] = ()
    locks: Sequence[Path] = ()
    absent: Sequence[Path] = ()

    @property
    def guarded(self) -> list[Path]:
        """What must neither be changed nor made."""
        return [*(path for path in self.bound if path not in self.locks), *self.locked, *self.absent]

    @property
    def installed(self) -> list[Path]:
        """The folders of installed packages."""
        return [path for path in (*self.bound, *self.locked) if INSTALLED in path.parts]


def program_of(entry: Path, package: Path | None = None, files: ProjectFiles = ON_DISK) -> Program:
    """Return what an extension consists of. `package` is the folder of one for Node that has one of its own. Blocks.

    Of more than MAX_FILES files that it imports not all are found; whoever reads them refuses so many.
    """
    top = package or entry
    if entry.suffix not in NODE_SUFFIXES:
        return Program([top])
    closure = _Closure(top, files)
    closure.follow(entry)
    return Program(*map(list, (closure.bound, closure.locked, closure.locks, closure.absent)))


class _Closure:
    """What the imports of a program lead to. The values of the dictionaries mean nothing; they keep the order."""

    def __init__(self, top: Path, files: ProjectFiles) -> None:
        self.bound: dict[Path, None] = {top: None}
        self.locked: dict[Path, None] = {}
        self.locks: dict[Path, None] = {}
        self.absent: dict[Path, None] = {}
        self._files = files
        self._lock_files = LockFiles(files)

    def follow(self, entry: Path) -> None:
        waiting, seen = [entry], set[str]()
        while waiting and len(seen) <= MAX_FILES:
            file = waiting.pop()
            real = os.path.realpath(file)
            if real in seen:
                continue
            seen.add(real)
            self.bound[file] = None
            if file.suffix not in _NO_CODE:
                waiting += self._imported_by(file, Path(real).parent)

    def _imported_by(self, file: Path, folder: Path) -> Iterator[Path]:
        try:
            source = self._files.read(file, MAX_BYTES)
        except OSError:  # reported by who reads it next
            return
        for _, name in re.findall(_IMPORTED, source, re.DOTALL):
            text = os.fsdecode(name)
            if text.startswith(("./", "../", "/")) or text in (".", ".."):
                yield from self._local(folder, text, imported=True)
            else:
                self._install(text, folder)
        for _, name in re.findall(_RELATIVE, source):
            yield from self._local(folder, os.fsdecode(name), imported=False)

    def _local(self, folder: Path, name: str, *, imported: bool) -> Iterator[Path]:
        """Find the file that a path means. One that is not `imported` may be any text."""
        path = os.path.normpath(folder / re.split("[?#]", name)[0])
        stem, ending = os.path.splitext(path)
        tried = [path, *(stem + other for other in _TYPESCRIPT_OF.get(ending, ())), *(path + more for more in _ENDINGS)]
        found = next((at for at, candidate in enumerate(tried) if self._is_there(candidate, folder=False)), None)
        if found is not None and tried[found].endswith(NODE_SUFFIXES):
            yield Path(tried[found])
        elif found is None and imported and self._is_there(path, folder=True):
            self.bound[Path(path)] = None  # require() looks into its package.json
            found = 0
        if found is not None or imported:
            self.absent |= dict.fromkeys(map(Path, tried[:found]))

    def _install(self, name: str, folder: Path) -> None:
        """Find an installed package as Node does, in this folder and those above it, and what it needs."""
        package = _PACKAGE.match(name)
        if package is None or package[0] in _OF_NODE or _OF_THE_HOST.match(name):
            return
        places = [place / INSTALLED / package[0] for place in (folder, *folder.parents) if place.name != INSTALLED]
        found = next((at for at, place in enumerate(places) if self._is_there(place, folder=True)), None)
        self.absent |= dict.fromkeys(places[:found])
        if found is None or places[found] in self.bound or places[found] in self.locked:
            return
        place = places[found]
        lock = self._lock_files.lock_of(place)
        if lock is None:
            self.bound[place] = None
        else:
            self.locked[place] = self.locks[lock] = self.bound[lock] = None
        try:
            manifest = parse(self._files.read(place / "package.json", MAX_BYTES))
        except (OSError, BadRecord):
            return
        for kind in _DEPENDENCIES if isinstance(manifest, dict) else ():
            for needed in manifest.get(kind) or ():
                self._install(str(needed), Path(os.path.realpath(place)))

    def _is_there(self, path: Path | str, *, folder: bool) -> bool:
        try:
            return (self._files.folder_identity(Path(path)) is not None) == folder
        except (OSError, ValueError):
            return False


class LockFiles:
    """The lock files beside `node_modules`. Each is read once. `used` has those that a digest was found in."""

    def __init__(self, files: ProjectFiles = ON_DISK) -> None:
        self.used: dict[Path, None] = {}
        self._files = files
        self._known: dict[Path, Mapping[str, Any] | bytes] = {}

    def lock_of(self, package: Path) -> Path | None:
        """Return the lock file that has the digest of the installed package in this folder; None if there is none."""
        parts = package.parts
        for at in reversed([at for at, part in enumerate(parts) if part == INSTALLED]):
            for name in _LOCK_FILES:
                lock = Path(*parts[:at], name)
                if _has_digest(self._read(lock), "/".join(parts[at:])):
                    self.used[lock] = None
                    return lock
        return None

    def _read(self, lock: Path) -> Mapping[str, Any] | bytes:
        if lock not in self._known:
            try:
                data = self._files.read(lock, MAX_LOCK_BYTES)
            except OSError:
                data = b""
            self._known[lock] = lock_entries(data) if lock.suffix == ".json" else data
        return self._known[lock]


def _has_digest(lock: Mapping[str, Any] | bytes, place: str) -> bool:
    if isinstance(lock, bytes):  # of pnpm, yarn or bun
        return re.search(rb"""(?:^|[\s"'/])%b["'@:]""" % re.escape(_name(place).encode()), lock) is not None
    entry = lock.get(place, {})
    return str(entry.get("integrity", "")).startswith("sha512-") or bool(entry.get("inBundle"))


def _name(place: str) -> str:
    return place.rpartition(f"{INSTALLED}/")[2]


def lock_entries(data: bytes) -> Mapping[str, Mapping[str, Any]]:
    """Return the entries of a lock file of npm, by their place; empty if it is damaged."""
    try:
        content = parse(data)
    except BadRecord:
        return {}
    packages = content.get("packages") if isinstance(content, dict) else None
    if not isinstance(packages, dict):
        return {}
    return {place: entry for place, entry in packages.items() if place and isinstance(entry, dict)}


def without_locked(folder: Path, names: Iterable[str], locks: LockFiles) -> Iterator[str]:
    """Yield those names in a folder that are not installed packages whose digests a lock file has.

    In `node_modules`, hidden names are left out too: nothing is imported from there by name.
    """
    of_scope = folder.name.startswith("@") and folder.parent.name == INSTALLED
    if folder.name != INSTALLED and not of_scope:
        yield from names
        return
    for name in names:
        if not name.startswith(".") and locks.lock_of(folder / name) is None:
            yield name


def module_files(program: Program, *, installed: bool = True) -> list[Path]:
    """Return the modules of a program, as the loader names them. Without `installed`, not those of installed packages.

    Raises ExtensionFailure if there are too many.
    """
    found: dict[Path, None] = {}
    locks = LockFiles() if installed else None
    for top in program.bound:
        if INSTALLED in top.parts and not installed and top != program.bound[0]:
            continue
        in_python = os.path.isfile(top / "__init__.py")
        for file in _below(top, SUFFIXES if in_python else NODE_SUFFIXES, None if in_python else locks, ()):
            found[file] = None
            if len(found) > MAX_FILES:
                raise ExtensionFailure(f"{top} has more than {MAX_FILES} modules, too many to check for changes")
    return list(found)


def module_digests(program: Program, *, installed: bool = True) -> dict[str, str]:
    """Return the SHA-256 of each file of `module_files` by path. Blocks.

    Raises ExtensionFailure if a module cannot be read.
    """
    digests: dict[str, str] = {}
    room = MAX_BYTES
    for file in module_files(program, installed=installed):
        try:
            data = read_small(file, room)
        except OSError as error:
            raise ExtensionFailure(f"{file} cannot be read: {error.strerror or error}") from None
        room -= len(data)
        digests[str(file)] = sha256_hex(data)
    return digests


def first_changed(before: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """Return the first file that differs, is new or is missing; None if there is none."""
    return next((path for path in sorted({*before, *now}) if before.get(path) != now.get(path)), None)


def trusted_digests(modules: Mapping[str, str], content: Mapping[str, str]) -> dict[str, str]:
    """Return the trusted digests of the same modules. `content` is keyed by real paths."""
    return {path: content[real] for path in modules if (real := os.path.realpath(path)) in content}


def _below(
    top: Path, suffixes: tuple[str, ...], locks: LockFiles | None, above: tuple[tuple[int, int], ...]
) -> Iterator[Path]:
    """Yield a file, or the modules in a folder. Without `locks`, no installed packages."""
    if not os.path.isdir(top):
        yield top
        return
    try:
        status = os.stat(top)
        identity = (status.st_dev, status.st_ino)
        entries = {entry.name: top / entry.name for entry in sorted(os.scandir(top), key=lambda entry: entry.name)}
    except OSError as error:
        raise ExtensionFailure(f"{top} cannot be read: {error.strerror}") from None
    if identity in above or len(above) == MAX_DEPTH:
        raise ExtensionFailure(f"{top} contains itself through a link, or is nested too deeply")
    if above and "pyvenv.cfg" in entries:
        return
    for name in entries if locks is None else without_locked(top, entries, locks):
        if os.path.isdir(entries[name]):
            if not name.startswith(".") and name != "__pycache__" and (locks is not None or name != INSTALLED):
                yield from _below(entries[name], suffixes, locks, (*above, identity))
        elif name.endswith(suffixes):
            yield entries[name]
