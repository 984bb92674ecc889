"""Paths: the user's configuration folder, the working folder, and the roots below which clients may name folders."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tau.errors import CommandError, UsageError

NOT_BELOW = "is not below a folder that this host was started with (--root)"


def agent_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the user's configuration folder: PI_CODING_AGENT_DIR, else ~/.pi/agent."""
    given = environment.get("PI_CODING_AGENT_DIR")
    return Path(given).expanduser() if given else Path.home() / ".pi" / "agent"


def working_folder() -> str:
    """Return the working folder of this process. Raises UsageError if it was deleted."""
    try:
        return os.getcwd()
    except OSError as error:
        raise UsageError(
            f"The working directory cannot be used, because it was deleted or moved ({error.strerror})."
            " Change to one that exists."
        ) from None


def is_storable(name: str) -> bool:
    """True if a text can be a path: a file system stores neither null characters nor lone surrogates."""
    try:
        return b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:
        return False


def is_inside(path: str, roots: Sequence[str]) -> bool:
    """True if an absolute path is one of these folders, or below one. Links are followed."""
    if not os.path.isabs(path) or not is_storable(path):
        return False
    real = os.path.realpath(path)
    return any(real == root or real.startswith(root.rstrip("/") + "/") for root in map(os.path.realpath, roots))


def check_folder(field: str, path: str, roots: Sequence[str]) -> str:
    """Check a working folder that a client, or its model, has named: `tau serve` and `tau mcp serve`.

    Raises CommandError if it is not below a root, or does not exist.
    """
    if not is_inside(path, roots):
        raise CommandError(f"{field}: {path} {NOT_BELOW}")
    if not os.path.isdir(path):
        raise CommandError(f"{field}: there is no folder {path}")
    return path
