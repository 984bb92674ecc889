"""Local files for tools: checked reads and atomic replacement.

Read checks are made on the open descriptor, never on the name, so that no link can bypass them.

A file is replaced by writing a new file and renaming it over the old one, so that at any moment, even after a crash
or on a full disk, either the old file or the new one exists. If the rename is not possible (the file has other hard
links, which would keep the old content; it is a mount point; its folder is not writable), the file is rewritten in
place, and a copy of the old content lies beside it until that is done. If the process is killed during the rewrite,
the old content is left in that copy (.tau-…).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal

from tau.errors import ToolError
from tau.runtime.machine.protected_files import ProtectedFiles
from tau.store.paths import agent_dir
from tau.store.procfs import opened_path, shows_process
from tau.tools import Entry, OpenFile, OpenFolder

CHUNK_BYTES = 1024 * 1024
# Files beside auth.json that may contain keys or tokens.
OTHER_SECRET_FILES = ("models.json", "mcp.json", "tau-mcp-auth.json")

_COMMON_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
_READ_FLAGS = os.O_RDONLY | _COMMON_FLAGS | getattr(os, "O_NONBLOCK", 0)
_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
)
# Opens a file only to inspect it: opening it for reading can block or have side effects. Linux only.
_PATH_FLAGS = os.O_PATH | _COMMON_FLAGS if hasattr(os, "O_PATH") else None
SERVER_FOLDER = "serve"  # in the agent's folder
_NAME_IS_TAKEN = (errno.EACCES, errno.EPERM, errno.EBUSY, errno.EROFS)


class LocalFiles:
    """Implements tau.tools.Files. `keys` is the agent's credential file, by default auth.json in the agent's folder.

    `guarded` prevents tools from writing the agent's own files; without it they may write them.
    """

    def __init__(self, keys: str | None = None, guarded: ProtectedFiles | None = None) -> None:
        self._keys = str(agent_dir() / "auth.json") if keys is None else keys
        self._guarded = guarded

    def open(self, path: str) -> OpenFile:
        with _convert_errors(f"access '{path}'"):
            # Check the type before opening, because opening a device can have side effects.
            _check_kind(path, os.stat(path), "read")
            file = os.open(path, _READ_FLAGS)
        try:
            with _convert_errors("read"):
                status = os.fstat(file)
                _check_kind(path, status, "read")
                real = opened_path(file, path)
                self._check_secrets(path, real, file, status)
            return _Opened(file, real)
        except BaseException:
            os.close(file)
            raise

    def folder(self, path: str) -> OpenFolder:
        """As Files.folder. Refuses a folder that its real path does not lead to, such as another container's root."""
        if _PATH_FLAGS is None:
            return OpenFolder(self.real(path), None)
        with _convert_errors(f"open '{path}'"):
            folder = OpenFolder(path, os.open(path, _PATH_FLAGS | os.O_DIRECTORY))
            assert folder.descriptor is not None
            folder.path = opened_path(folder.descriptor, path)
            if not _is_same(folder.path, os.fstat(folder.descriptor)):
                folder.close()
                raise ToolError(f"{path} leads to a folder that has no path on this machine")
        return folder

    def replace(self, path: str, data: bytes) -> None:
        """As Files.replace. Follows a link: its target is replaced, or created."""
        target = self.real(path)
        folder = os.path.dirname(target)
        if self._guarded is not None:
            with _convert_errors(f"open '{path}'"):
                self._guarded.check(path, target, _status(target))
        with _convert_errors(f"mkdir '{folder}'"):
            os.makedirs(folder, exist_ok=True)
        with _convert_errors(f"open '{path}'"):
            status = _status(target)
            if status is not None:
                _check_kind(path, status, "written", f"open '{path}'")
                self._check_writable(path, target, status)
        with _convert_errors(f"write '{path}'"):
            if status is None:
                _exchange(target, data, None)
            elif status.st_nlink > 1:
                _rewrite(target, data)
            else:
                try:
                    _exchange(target, data, status)
                except OSError as error:
                    if error.errno not in _NAME_IS_TAKEN:
                        raise
                    _rewrite(target, data)

    def real(self, path: str) -> str:
        with _convert_errors(f"access '{path}'"):
            return os.path.realpath(path)

    def kind(self, path: str) -> Literal["file", "folder", "other"] | None:
        with _convert_errors(f"stat '{path}'"):
            status = _status(path)
        if status is None:
            return None
        if stat.S_ISDIR(status.st_mode):
            return "folder"
        return "file" if stat.S_ISREG(status.st_mode) else "other"

    def entries(self, path: str) -> list[Entry]:
        """As Files.entries. A link is listed as its target; broken links are left out."""
        found = []
        with _convert_errors(f"scandir '{path}'"), os.scandir(path) as listed:
            for entry in listed:
                with suppress(OSError):
                    if entry.is_symlink():
                        entry.stat()
                    found.append(Entry(entry.name, entry.is_dir()))
        return found

    def is_secret(self, path: str, at: OpenFolder | None = None) -> bool:
        path = path if at is None or at.descriptor is not None else os.path.join(at.path, path)
        try:
            if _PATH_FLAGS is None:
                return self._holds_keys(os.path.realpath(path), os.stat(path))
            file = os.open(path, _PATH_FLAGS, dir_fd=None if at is None else at.descriptor)
            try:
                real, status = opened_path(file, path), os.fstat(file)
                return shows_process(file, status, real) or self._holds_keys(real, status)
            finally:
                os.close(file)
        except OSError:
            return True

    def _check_secrets(self, path: str, real: str, file: int, status: os.stat_result) -> None:
        if shows_process(file, status, real):
            raise ToolError(f"{path} shows the environment or the memory of a process and may not be read")
        if self._holds_keys(real, status):
            raise ToolError(f"{path} holds the agent's own credentials and may not be read")

    def _check_writable(self, path: str, target: str, status: os.stat_result) -> None:
        """Refuse the credential file and read-only files, which a rename in a writable folder would replace."""
        if _is_same(self._keys, status):
            raise ToolError(f"{path} holds the agent's own credentials and may not be written")
        if not os.access(target, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def _holds_keys(self, real: str, status: os.stat_result) -> bool:
        folder, name = os.path.split(self._keys)
        names = (name, *OTHER_SECRET_FILES)
        if any(_is_same(os.path.join(folder, one), status) for one in names):
            return True
        if self._is_of_server(os.path.join(folder, SERVER_FOLDER), real, status):
            return True
        # Temporary files that store.files.replace_file renames to their final name; a crash can leave one behind.
        drafts = tuple(f".{one}." for one in names)
        return os.path.basename(real).startswith(drafts) and _is_same(folder, os.stat(os.path.dirname(real)))

    def _is_of_server(self, serve: str, real: str, status: os.stat_result) -> bool:
        """True for the files of `tau serve`: tokens and logins."""
        if os.path.basename(os.path.dirname(real)) == SERVER_FOLDER and _is_same(serve, os.stat(os.path.dirname(real))):
            return True
        return status.st_nlink > 1 and _is_same(os.path.join(serve, "token"), status)


class _Opened(OpenFile):
    def read(self, size: int | None = -1, /) -> bytes:
        with _convert_errors("read"):
            return super().read(size) or b""  # None: the read of a special file would block


def opened(file: int, path: str) -> OpenFile:
    """Wrap a descriptor that is already open for reading; `path` is its real path."""
    return _Opened(file, path)


@contextmanager
def _convert_errors(operation: str) -> Iterator[None]:
    """Convert an OSError to a ToolError in the wording of Node, which models and clients of pi know."""
    try:
        yield
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, "EIO")
        raise ToolError(f"{name}: {(error.strerror or str(error)).lower()}, {operation}") from None


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _is_same(path: str, status: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(path), status)
    except OSError:
        return False


# Checking the file type


def _check_kind(path: str, status: os.stat_result, done: str, operation: str = "read") -> None:
    if stat.S_ISDIR(status.st_mode):
        raise ToolError(f"EISDIR: illegal operation on a directory, {operation}")
    for is_one, name in _KINDS:
        if is_one(status.st_mode):
            raise ToolError(f"{path} is {name}; only regular files can be {done}")


# Replacing


def _exchange(target: str, data: bytes, status: os.stat_result | None) -> None:
    """Write a new file and rename it over the old one. If anything fails, the old file is untouched."""
    folder = os.path.dirname(target)
    draft, file = _new_file(folder, 0o600 if status else 0o666)
    try:
        try:
            _put(file, data)
            if status:
                _inherit(file, target, status)  # last, because writing clears the setuid and setgid bits
            os.fsync(file)
        finally:
            os.close(file)
        os.replace(draft, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise
    _sync(folder)


def _rewrite(target: str, data: bytes) -> None:
    """Rewrite the file in place. If anything fails, the old content is restored from a copy."""
    file = os.open(target, os.O_RDWR | _COMMON_FLAGS)
    try:
        copy = _copied(file, os.path.dirname(target))
        try:
            _put(file, data)
            os.ftruncate(file, len(data))
            os.fsync(file)
        except BaseException:
            _undo(file, copy)
            raise
        os.unlink(copy)
    finally:
        os.close(file)


def _undo(file: int, copy: str) -> None:
    try:
        with open(copy, "rb", buffering=0) as old:
            _copy(old.fileno(), file)
        os.fsync(file)
    except OSError as error:
        raise ToolError(f"The file is half written ({error.strerror}); its old content is in {copy}") from None
    os.unlink(copy)


def _copied(file: int, folder: str) -> str:
    """Copy the file to a new file beside it or, if that is not permitted, in the temp folder; return its path."""
    try:
        path, copy = _new_file(folder, 0o600)
    except OSError as error:
        if error.errno not in _NAME_IS_TAKEN:
            raise
        import tempfile

        path, copy = _new_file(tempfile.gettempdir(), 0o600)
    try:
        try:
            _copy(file, copy)
            os.fsync(copy)
        finally:
            os.close(copy)
    except BaseException:
        with suppress(OSError):
            os.unlink(path)
        raise
    os.lseek(file, 0, os.SEEK_SET)
    return path


def _copy(origin: int, target: int) -> None:
    os.lseek(target, 0, os.SEEK_SET)
    length = 0
    while portion := os.read(origin, CHUNK_BYTES):
        _put(target, portion)
        length += len(portion)
    os.ftruncate(target, length)


def _new_file(folder: str, mode: int) -> tuple[str, int]:
    path = os.path.join(folder, f".tau-{os.urandom(8).hex()}")
    return path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _COMMON_FLAGS, mode)


def _inherit(file: int, target: str, status: os.stat_result) -> None:
    """Copy owner, mode and extended attributes (such as access control lists), as far as permitted."""
    if hasattr(os, "fchown"):
        try:
            os.fchown(file, status.st_uid, status.st_gid)
        except OSError:
            with suppress(OSError):
                os.fchown(file, -1, status.st_gid)
        is_same = os.fstat(file).st_uid == status.st_uid
        # The setuid and setgid bits were granted to content of that owner only.
        os.fchmod(file, stat.S_IMODE(status.st_mode) if is_same else status.st_mode & 0o777)
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for name in os.listxattr(target):
                with suppress(OSError):
                    os.setxattr(file, name, os.getxattr(target, name))


def _put(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _sync(folder: str) -> None:
    """fsync the folder, so that the rename survives a power cut. Not every file system can; that is not an error."""
    with suppress(OSError):
        file = os.open(folder, os.O_RDONLY | _COMMON_FLAGS | getattr(os, "O_DIRECTORY", 0))
        try:
            os.fsync(file)
        finally:
            os.close(file)
