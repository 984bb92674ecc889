"""package-lock.json of npm: which packages it names, and whether their origin can be checked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tau.store.extension_modules import MAX_LOCK_BYTES, lock_entries
from tau.store.files import read_small
from tau.store.packages.errors import PackageError

_LOOPBACK = re.compile(r"127\.\d+\.\d+\.\d+|localhost|::1")

Packages = Mapping[str, Mapping[str, Any]]


def read_packages(folder: Path) -> Packages:
    """Return the entries of the lock file in a folder, by their place; empty if there is none."""
    try:
        return lock_entries(read_small(folder / "package-lock.json", MAX_LOCK_BYTES))
    except OSError:
        return {}


def check_origins(packages: Packages, known: Packages) -> None:
    """Refuse what cannot be checked: an entry without a SHA-512, or that does not come over https.

    Entries that are `known`, because they were installed before, are not checked again. Raises PackageError.
    """
    for place, entry in packages.items():
        if entry.get("inBundle") or _origin(entry) == _origin(known.get(place, {})):
            continue
        name = f"{name_of(place)}@{entry.get('version', '?')}"
        resolved, integrity = entry.get("resolved"), entry.get("integrity")
        if entry.get("link") or not isinstance(resolved, str) or not _is_secure(resolved):
            raise PackageError(f"{name} is refused: it does not come from a registry over https ({resolved}).")
        if not isinstance(integrity, str) or not integrity.startswith("sha512-"):
            raise PackageError(f"{name} is refused: the registry has no SHA-512 of it.")


def _origin(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    return entry.get("resolved"), entry.get("integrity")


def _is_secure(url: str) -> bool:
    """https, or a server on this machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    is_local = parts.scheme == "http" and _LOOPBACK.fullmatch(parts.hostname or "") is not None
    return parts.scheme == "https" or is_local


def name_of(place: str) -> str:
    return place.rpartition("node_modules/")[2]


def with_scripts(packages: Packages) -> list[str]:
    """Return the names of the packages that have install scripts."""
    return sorted({name_of(place) for place, entry in packages.items() if entry.get("hasInstallScript")})


def dependencies_of(packages: Packages, place: str) -> Packages:
    """Return the entries that a package needs, directly and indirectly."""
    found: dict[str, Mapping[str, Any]] = {}
    waiting = [place]
    while waiting:
        at = waiting.pop()
        for name in _needed(packages.get(at, {})):
            needed = next((each for each in _places(at, name) if each in packages), None)
            if needed is not None and needed not in found and needed != place:
                found[needed] = packages[needed]
                waiting.append(needed)
    return found


def _needed(entry: Mapping[str, Any]) -> Iterator[str]:
    for kind in ("dependencies", "optionalDependencies"):
        names = entry.get(kind)
        yield from names if isinstance(names, dict) else ()


def _places(place: str, name: str) -> Iterator[str]:
    """Where Node looks for a module, from the inside out."""
    while place:
        yield f"{place}/node_modules/{name}"
        place = place.rpartition("node_modules/")[0].rstrip("/")
    yield f"node_modules/{name}"
