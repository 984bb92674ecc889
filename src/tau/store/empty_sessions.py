"""Sessions of editors that have no prompt yet: the choices of each, in a file that no list of sessions shows.

A session file begins with the first prompt, but an editor may load a session before that, in another process.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tau.records.base import BadRecord, encode, parse
from tau.store.files import make_folder, read_small
from tau.store.listing import check_shortage

MAX_KEPT = 200


class EmptySessions:
    """Every method blocks. `id` is a session id, which is also a file name."""

    def __init__(self, agent_dir: Path) -> None:
        self._folder = agent_dir / "acp"

    def write(self, id: str, choices: Mapping[str, Any]) -> None:
        """Raises OSError. Only the newest sessions are kept."""
        make_folder(self._folder)
        handle = os.open(self._path(id), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(handle, "wb") as file:
            file.write(encode(choices))
        kept = sorted(self._folder.glob("*.json"))  # by their ids, which begin with the time
        for path in kept[:-MAX_KEPT]:
            path.unlink(missing_ok=True)

    def read(self, id: str) -> dict[str, Any] | None:
        """The choices of a session; None if there is no such session."""
        try:
            found = parse(read_small(self._path(id)))
        except FileNotFoundError:
            return None
        except (OSError, BadRecord) as error:
            check_shortage(error)
            return {}
        return found if isinstance(found, dict) else {}

    def remove(self, id: str) -> None:
        with suppress(OSError):
            self._path(id).unlink(missing_ok=True)

    def _path(self, id: str) -> Path:
        return self._folder / f"{id}.json"
