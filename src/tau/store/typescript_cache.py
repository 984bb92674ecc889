"""Code without types that Node's host has kept in the cache folder of the agent (extension_api/node/stripping.mjs).

tau reads it for the host: Node would have to load OpenSSL to check digests, which takes time and 3 MB of memory.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from tau.core.checks.sha256 import sha256_hex
from tau.store.files import read_small

FORMAT = 1  # as in stripping.mjs
MAX_BYTES = 256 * 1024  # of sources; the host reads larger extensions itself
SUFFIXES = (".ts", ".mts", ".cts", ".tsx")
_DIGITS = 64  # of a digest, before the code in a file


def cached_code(modules: Mapping[str, str], agent_dir: str, version: str) -> dict[str, str]:
    """Return the code of those modules that are in the cache, by path. `version` is that of Node. Blocks shortly.

    `modules` has the SHA-256 of each module. One that has changed since is left out.
    """
    folder = Path(agent_dir, "cache", "typescript")
    found: dict[str, str] = {}
    if not os.path.isdir(folder):
        return found
    room = MAX_BYTES
    for path, digest in modules.items():
        if not path.endswith(SUFFIXES):
            continue
        try:
            source = read_small(path, room)
        except OSError:  # too large, or reported by the import
            break
        room -= len(source)
        if sha256_hex(source) == digest:
            key = sha256_hex(f"{FORMAT} {version} ".encode() + source)
            code = _read(folder / key)
            if code is not None:
                found[path] = code
    return found


def _read(file: Path) -> str | None:
    """Return the code in a file of the cache; None if there is none, or it is damaged."""
    try:
        content = read_small(file)
        digest, code = content[:_DIGITS].decode(), content[_DIGITS + 1 :]
        return code.decode() if digest == sha256_hex(code) else None
    except (OSError, UnicodeDecodeError):
        return None
