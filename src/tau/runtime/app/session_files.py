"""The session files of this user, for a person who looks for one: list, search, rename, delete, import, copy.

Everything that reads or writes a file runs in a thread.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tau.concurrency.helper_commands import run_helper
from tau.errors import CommandError
from tau.records.replies import SessionRow
from tau.runtime.history.session_log import SessionLog, one_line
from tau.runtime.session import choices
from tau.store.listing import check_shortage, project_folders, recent_files, session_head, session_row, session_text
from tau.store.locks import holder, lock, unlock
from tau.store.paths import agent_dir
from tau.store.sessions import folder_for, open_session

if TYPE_CHECKING:
    from tau.runtime.session.session import Session

T = TypeVar("T")
TRASH_TIMEOUT_S = 10.0


class SessionFiles:
    def __init__(self, session: Session) -> None:
        self._session = session

    # Lists.

    async def paths(self, *, everywhere: bool) -> list[Path]:
        """The session files, newest first. Those of one project may be among those of others in the same folder."""
        services = self._session.services
        folder = services.sessions
        if folder is None:
            return []
        # A session folder that the user has chosen contains the sessions of every project itself.
        usual = folder == folder_for(services.cwd, services.agent_dir or agent_dir())

        def found() -> list[Path]:
            return recent_files(project_folders(folder.parent) if everywhere and usual else [folder])

        return await services.machine.in_thread(found)

    async def heads(self, paths: Sequence[Path]) -> list[SessionRow]:
        """What the beginnings of the files say."""
        rows = await self._in_thread(lambda: [session_head(path) for path in paths])
        return [row for row in rows if row is not None]

    async def contents(self, paths: Sequence[Path], limit: int) -> list[tuple[SessionRow, str]]:
        """The complete rows of sessions, and the text of their messages up to `limit` characters each."""
        found = await self._in_thread(
            lambda: [(row, session_text(path, limit)) for path in paths if (row := session_row(path)) is not None]
        )
        return found

    # One session.

    async def owner(self, path: str) -> str | None:
        """The process that has a session open, such as "process 4711 (tau)"; None if there is none."""
        return await self._in_thread(lambda: owner_of(path))

    async def messages(self, path: str) -> list[object]:
        """The conversation of a session, without opening it."""

        def read() -> list[object]:
            found = open_session(Path(path))
            return list(SessionLog(found.header, found.path, lambda error: None, found.tree).messages)

        return await self._in_thread(read)

    async def rename(self, path: str, name: str) -> None:
        """Name a session. Raises CommandError if another process has it open."""
        session = self._session
        if self._is_current(path):
            await choices.set_name(session, name)
            return
        if not one_line(name):
            raise CommandError("Session name cannot be empty")

        def write() -> None:
            log = SessionLog.resumed(open_session(Path(path)), lambda error: None)
            try:
                log.set_name(name)
                log.flush()
            except OSError as error:
                raise CommandError(f"Cannot write {path}: {error.strerror or error}") from None
            finally:
                log.close()

        await self._in_thread(write)

    async def delete(self, path: str) -> None:
        """Move a session to the trash if there is a `trash` program, else delete it."""
        if self._is_current(path):
            raise CommandError("The session that is open cannot be deleted.")

        def remove() -> None:
            if (owner := owner_of(path)) is not None:
                raise CommandError(f"The session cannot be deleted: {owner} has it open.")
            _to_trash(path)
            try:
                Path(path).unlink(missing_ok=True)
            except OSError as error:
                raise CommandError(f"Cannot delete {path}: {error.strerror or error}") from None

        await self._in_thread(remove)

    async def import_file(self, text: str) -> bool:
        """Copy a session file into the folder of this project's sessions, and open it. False: cancelled."""
        session = self._session
        folder = session.services.sessions
        source = Path(session.services.cwd, os.path.expanduser(text))
        if folder is None:
            raise CommandError("Sessions are kept in memory only, so a file cannot be imported.")

        def copied() -> Path:
            open_session(source)  # raises if it is not a session
            target = folder / source.name
            if os.path.exists(target):
                if os.path.samefile(target, source) or target.read_bytes() == source.read_bytes():
                    return target
                raise CommandError(f"{target} exists already, with another content.")
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            target.chmod(0o600)
            return target

        try:
            target = await self._in_thread(copied)
        except OSError as error:
            raise CommandError(f"Cannot import {source}: {error.strerror or error}") from None
        return await session.navigator.open_file(target)

    async def open_here(self, path: str) -> bool:
        """Open a session, and run it in the present folder instead of its own. False: cancelled."""
        return await self._session.navigator.open_file(Path(path), self._session.services.cwd)

    async def open_copy(self, path: str) -> bool:
        """Continue in a copy of a session, also if another process has it open. False: cancelled."""
        return await self._session.navigator.open_copy(Path(path))

    def _is_current(self, path: str) -> bool:
        current = self._session.log.path
        return current is not None and os.path.realpath(current) == os.path.realpath(path)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await self._session.services.machine.in_thread(work)


def owner_of(path: str) -> str | None:
    """The process that has a session open, such as "process 4711 (tau)"; None if there is none. Blocks."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except OSError as error:
        check_shortage(error)
        return None
    try:
        if lock(handle):
            unlock(handle)
            return None
        pid = holder(handle)
    finally:
        os.close(handle)
    if pid is None:
        return "another process"
    name = ""
    with suppress(OSError, UnicodeDecodeError):
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    return f"process {pid} ({name})" if name else f"process {pid}"


def _to_trash(path: str) -> None:
    program = shutil.which("trash")
    if program is not None:
        with suppress(OSError, subprocess.SubprocessError):
            run_helper([program, path], timeout=TRASH_TIMEOUT_S)
