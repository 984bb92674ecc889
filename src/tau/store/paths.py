"""Default paths: the user's configuration folder and the working folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from tau.errors import UsageError


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
