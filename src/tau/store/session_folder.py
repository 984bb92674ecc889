"""The folder in which a session runs: the one in its header, if nothing forbids it.

Every front end asks `session_folder`. A session file is data: its header never widens what a host, a sandbox or
permission rules were started for.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from tau.errors import SessionFolderGone, SessionFolderRefused
from tau.records.base import Value
from tau.store.paths import NOT_BELOW, is_inside, is_storable


class Boundary(Value):
    """Folders in which, and below which, sessions may run. `name` is what limits them; "" for the roots of a host, and
    `field` what its client has sent.
    """

    folders: Sequence[str]
    name: str = ""
    field: str = "session"


def session_folder(stored: str, file: Path, start: str, boundaries: Sequence[Boundary] = ()) -> str:
    """The folder for a session whose header has `stored`; `start` if that is empty.

    Raises SessionFolderRefused or SessionFolderGone.
    """
    folder = os.path.normpath(os.path.join(start, stored))
    storable = is_storable(folder)
    if storable and (not stored or os.path.realpath(folder) == os.path.realpath(start)):
        return start
    crossed = next((one for one in boundaries if not is_inside(folder, one.folders)), None)
    if crossed is not None and not crossed.name:  # whether the folder exists is not told either
        raise SessionFolderRefused(f"{crossed.field}: {folder} {NOT_BELOW}")
    if not storable or not os.path.isdir(folder):
        raise SessionFolderGone(
            f"Stored session working directory does not exist: {stored}\nSession file: {file}\n"
            f"Current working directory: {start}\nTo open a copy of it here, use --fork {shlex.quote(str(file))}",
            str(file),
        )
    if crossed is not None:
        raise SessionFolderRefused(
            f"The session works in {folder}, but this run was started with {crossed.name} for {crossed.folders[0]}. "
            f"Start it there, with the same options: cd {shlex.quote(folder)} && tau --session {shlex.quote(str(file))}"
        )
    return os.path.realpath(folder) if boundaries else folder
