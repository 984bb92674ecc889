"""Digests of the modules of an extension: a restarted extension must have the same code as at its first load.

An extension is restarted after a crash. Meanwhile a tool, a command or another program may have changed its files, so
they are compared with the digests of the first load. For a project that is trusted by content, the first load is
compared with what was trusted.

Not covered: modules that an extension imports from elsewhere, files that it reads as data, and folders that hold no
modules of its own (hidden ones, virtual environments).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from tau.core.checks.sha256 import sha256_hex
from tau.errors import ExtensionFailure
from tau.store.files import read_small

SUFFIXES = (".py", ".pyc", ".so", ".pyd")
NODE_SUFFIXES = (".ts", ".mts", ".cts", ".tsx", ".js", ".mjs", ".cjs", ".jsx", ".json", ".node", ".wasm")
MAX_FILES, MAX_BYTES, MAX_DEPTH = 4096, 64 * 1024 * 1024, 32
_SKIPPED = ("__pycache__", "node_modules")


def module_files(path: Path, entry: Path | None = None) -> list[Path]:
    """Return the file of an extension, or all modules in its folder, as the loader names them.

    `entry` is the file that is executed; a manifest may name one outside of the folder, or in one that is skipped.

    Raises ExtensionFailure if there are too many.
    """
    if not os.path.isdir(path):
        return [path]
    found: list[Path] = []
    suffixes = SUFFIXES if os.path.isfile(path / "__init__.py") else NODE_SUFFIXES
    for file in _below(path, suffixes, ()):
        found.append(file)
        if len(found) > MAX_FILES:
            raise ExtensionFailure(f"{path} has more than {MAX_FILES} modules, too many to check for changes")
    if entry is not None and not os.path.isdir(entry) and entry not in found:
        found.append(entry)
    return found


def module_digests(path: Path, entry: Path | None = None) -> dict[str, str]:
    """Return the SHA-256 of each file of `module_files` by path. Blocks.

    Raises ExtensionFailure if a module cannot be read.
    """
    digests: dict[str, str] = {}
    room = MAX_BYTES
    for file in module_files(path, entry):
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


def _below(folder: Path, suffixes: tuple[str, ...], above: tuple[tuple[int, int], ...]) -> Iterator[Path]:
    try:
        status = os.stat(folder)
        identity = (status.st_dev, status.st_ino)
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise ExtensionFailure(f"{folder} cannot be read: {error.strerror}") from None
    if identity in above or len(above) == MAX_DEPTH:
        raise ExtensionFailure(f"{folder} contains itself through a link, or is nested too deeply")
    if above and any(entry.name == "pyvenv.cfg" for entry in entries):
        return
    for entry in entries:
        if os.path.isdir(folder / entry.name):
            if not entry.name.startswith(".") and entry.name not in _SKIPPED:
                yield from _below(folder / entry.name, suffixes, (*above, identity))
        elif entry.name.endswith(suffixes):
            yield folder / entry.name
