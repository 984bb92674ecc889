"""HTML export of a session to a file: atomic, readable by the owner only, and never over a foreign file.

An existing file is replaced only if its first bytes show that it is an earlier export, by tau or pi, or if the caller
passes `overwrite`. A link is never followed: it counts as a file that is not an export.
"""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, NoReturn

from tau import __version__
from tau.errors import CommandError
from tau.runtime.history.session_log import SessionLog

if TYPE_CHECKING:
    from tau.export.page import Page
    from tau.runtime.services import Services
    from tau.tools import Tool

# Markers in the first bytes of an export: tau's and pi's.
TAU_MARKER = b'<meta name="generator" content="tau session export">'
PI_MARKER = b"<title>Session Export</title>"
MARKER_SEARCH_BYTES = 400
MIN_FORKED_SECTIONS = 32  # below that, a second process costs more than it saves
FIRST_PART = 0.42  # of the sections: this process renders them, and the list of all entries
COPIED_BYTES = 1024 * 1024

_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_READ_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def write_export(page: Iterable[bytes], path: Path, overwrite: bool = False) -> Path:
    """Write the chunks of a page to `path`, readable by its owner only. On CommandError nothing has changed."""
    try:
        replaces = _replaces(path, overwrite)
        draft = path.with_name(f".{path.name[:100]}.{os.urandom(8).hex()}")
        handle = os.open(draft, _CREATE_FLAGS, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.writelines(page)
                file.flush()
                os.fsync(file.fileno())
            _publish(draft, path, replaces)
        finally:
            with suppress(FileNotFoundError):
                draft.unlink()
    except OSError as error:
        raise CommandError(_sentence(error, path)) from None
    return path


def _replaces(path: Path, overwrite: bool) -> bool:
    """True if there is a file that may be replaced. Raises CommandError if there is one that may not."""
    if not path.name or path.name == "..":
        raise CommandError(f"Cannot export to {path}: it names a folder, not a file")
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return False
    if stat.S_ISDIR(found.st_mode):
        raise CommandError(f"Cannot export to {path}: it is a folder")
    if overwrite and (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)):
        return True
    if stat.S_ISREG(found.st_mode) and _is_export(path):
        return True
    raise CommandError(f"Cannot export to {path}: it exists and is not an export; name another file")


def _is_export(path: Path) -> bool:
    handle = os.open(path, _READ_FLAGS)
    try:
        beginning = os.read(handle, MARKER_SEARCH_BYTES) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
    finally:
        os.close(handle)
    return beginning[:9].lower() == b"<!doctype" and (TAU_MARKER in beginning or PI_MARKER in beginning)


def _publish(draft: Path, path: Path, replaces: bool) -> None:
    if replaces:
        os.replace(draft, path)
        return
    # A link, unlike a rename, fails if another process has created a file of that name in the meantime.
    try:
        os.link(draft, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        os.replace(draft, path)


def _sentence(error: OSError, path: Path) -> str:
    if isinstance(error, FileNotFoundError):
        return f"Cannot export to {path}: the folder {path.parent} does not exist"
    if isinstance(error, FileExistsError):
        return f"Cannot export to {path}: another program has just created this file"
    return f"Cannot export to {path}: {(error.strerror or str(error)).lower()}"


def session_page(
    log: SessionLog, system_prompt: str | None = None, tools: Sequence[Tool] = (), *, may_fork: bool = False
) -> Iterator[bytes]:
    """Render a session as a page; `system_prompt` is the system prompt, if the session is live.

    With `may_fork`, a second process renders a part of a long page. The caller must have no threads.
    Imports the renderer lazily: few processes ever export.
    """
    from tau.export import Export, OfferedTool
    from tau.export.page import Page

    entries = list(log.tree.entries())
    page = Page(
        Export(
            log.header,
            entries,
            log.tree.leaf_id,
            __version__,
            name=log.tree.name,
            system_prompt=system_prompt,
            tools=[OfferedTool(tool.name, tool.description, tool.parameters) for tool in tools],
        )
    )
    yield page.head()
    is_long = len(page.sections) >= MIN_FORKED_SECTIONS and _processors() > 1
    if may_fork and is_long:
        yield from _rendered_by_two(page)
    else:
        yield from map(page.section, page.sections)
        yield from page.tail()


def _processors() -> int:
    """The number of processors that this process may use, on systems that have what `_rendered_by_two` needs."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "memfd_create") else 1


def _rendered_by_two(page: Page) -> Iterator[bytes]:
    """Yield the sections and the tail of a page. A second process renders the latter part of the sections."""
    first = int(len(page.sections) * FIRST_PART)
    with os.fdopen(os.memfd_create("tau-export"), "w+b") as rest:
        child = os.fork()
        if child == 0:
            _render_and_exit(page, first, rest)
        try:
            yield from map(page.section, page.sections[:first])
            tail = list(page.tail())
        except BaseException:  # or the caller has stopped reading
            os.kill(child, signal.SIGKILL)
            raise
        finally:
            _, status = os.waitpid(child, 0)
        if status == 0:
            rest.seek(0)
            yield from iter(lambda: rest.read(COPIED_BYTES), b"")
        else:  # it was killed, or there is too little memory
            yield from map(page.section, page.sections[first:])
    yield from tail


def _render_and_exit(page: Page, first: int, file: IO[bytes]) -> NoReturn:
    """In the second process: it ends without running anything that the first one has registered for its end."""
    code = 1
    try:
        file.writelines(map(page.section, page.sections[first:]))
        file.flush()
        code = 0
    finally:
        os._exit(code)


def export_session(log: SessionLog, services: Services, system_prompt: str, wanted: str | None) -> str:
    """Write the page and return its path: `wanted`, or a default name in the working directory. Blocks."""
    if log.path is None:
        raise CommandError("Cannot export in-memory session to HTML")
    if not os.path.exists(log.path):
        raise CommandError("Nothing to export yet - start a conversation first")
    name = wanted or default_name(log.path)
    write_export(
        session_page(log, system_prompt, list(services.tools.values())), Path(services.start, Path(name).expanduser())
    )
    return name


def default_name(session: Path) -> str:
    return f"pi-session-{session.stem}.html"
