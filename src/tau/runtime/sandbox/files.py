"""File access for tools in a sandbox, through a process inside, since only the kernel knows what is accessible.

The process is started like a command, with a socket as its stdout. A request is one JSON packet; so is a response,
which may carry the descriptor of a file, or of a memory file with data that is too long for a packet. Commands share
the sandbox with that process and may have compromised it, so its responses are trusted only as far as the commands
themselves could go: a file that it opened must be a regular file, and a listing is only shown.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal

import tau
from tau.errors import ToolError
from tau.runtime.machine.files import LocalFiles, opened
from tau.runtime.machine.protected_files import ProtectedFiles
from tau.tools import Entry, OpenFile, OpenFolder

PACKET_BYTES = 64 * 1024
REPLY_TIMEOUT_S = 120  # seconds for one response; a command can stop the process that sends it
MAX_REPLY_BYTES = 64 * 1024 * 1024  # bytes of a memory file with the names in a folder
PROCESS_ENDED = "The process that accesses files in the sandbox has ended. Try again."
_START = (
    "import sys; sys.path += [sys.argv[1], *sys.argv[2].split(':')]; from tau.runtime.sandbox.files import main; main()"
)

Start = Callable[[Sequence[str], int], socket.socket]


class ConfinedFiles:
    """Implements tau.tools.Files. Calls block; they may come from several threads and are serialized."""

    def __init__(self, start: Start, places: Sequence[str | Sequence[str] | None]) -> None:
        """`start` runs a program in the sandbox; closing the socket it returns ends the program.

        `places` are the arguments of `_local`.
        """
        self._start = start
        self._places = json.dumps(places)
        self._lock = threading.Lock()
        self._life: socket.socket | None = None
        self._line: socket.socket | None = None

    def open(self, path: str) -> OpenFile:
        real, file = self._ask("open", path)
        if file is None:
            raise ToolError(PROCESS_ENDED)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise ToolError(f"{path} is not a regular file")
        return opened(file, str(real))

    def folder(self, path: str) -> OpenFolder:
        real, file = self._ask("folder", path)
        if file is None:
            raise ToolError(PROCESS_ENDED)
        folder = OpenFolder(str(real), file)
        if not stat.S_ISDIR(os.fstat(file).st_mode):
            folder.close()
            raise ToolError(f"{path} is not a folder")
        return folder

    def replace(self, path: str, data: bytes) -> None:
        with _memory(data) as content:
            self._ask("replace", path, content.fileno())

    def real(self, path: str) -> str:
        return str(self._ask("real", path)[0])

    def kind(self, path: str) -> Literal["file", "folder", "other"] | None:
        answer = self._ask("kind", path)[0]
        return answer if answer in ("file", "folder", "other") else None

    def is_secret(self, path: str, at: OpenFolder | None = None) -> bool:
        try:
            fds = () if at is None or at.descriptor is None else (at.descriptor,)
            return self._ask("is_secret", path, *fds)[0] is not False
        except ToolError:  # unknown, so assume that it is secret
            return True

    def entries(self, path: str) -> list[Entry]:
        _, file = self._ask("entries", path)
        if file is None:
            raise ToolError(PROCESS_ENDED)
        with os.fdopen(file, "rb") as listed:
            try:
                return [
                    Entry(str(name), bool(is_folder)) for name, is_folder in json.loads(listed.read(MAX_REPLY_BYTES))
                ]
            except (ValueError, TypeError):
                raise ToolError(PROCESS_ENDED) from None

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        for end in (self._line, self._life):
            if end is not None:
                end.close()
        self._line = self._life = None

    def _ask(self, call: str, path: str, *fds: int) -> tuple[Any, int | None]:
        with self._lock:
            for last in (False, True):
                answer, file = self._exchange(json.dumps([call, path]).encode(), fds)
                if isinstance(answer, list) and len(answer) == 2:
                    break
                self.close()
                if last:
                    raise ToolError(PROCESS_ENDED)
        status, value = answer
        if status == "error":
            if file is not None:
                os.close(file)
            raise ToolError(str(value))
        return value, file

    def _exchange(self, question: bytes, fds: Sequence[int]) -> tuple[Any, int | None]:
        if self._line is None:
            self._begin()
        assert self._line is not None
        try:
            socket.send_fds(self._line, [question], fds)
            answer, files, _, _ = socket.recv_fds(self._line, PACKET_BYTES, 1, socket.MSG_CMSG_CLOEXEC)
            return json.loads(answer) if answer else None, files[0] if files else None
        except (OSError, ValueError):
            return None, None

    def _begin(self) -> None:
        our_end, their_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with their_end:
            path = os.pathsep.join(place for place in sys.path if place.endswith("-packages"))
            root = os.path.dirname(os.path.dirname(os.path.abspath(tau.__file__)))
            words = [os.path.realpath(sys.executable), "-I", "-S", "-X", "utf8", "-c", _START, root, path, self._places]
            self._life = self._start(words, their_end.fileno())
        our_end.settimeout(REPLY_TIMEOUT_S)
        self._line = our_end


def main() -> None:
    """Main loop of the process inside the sandbox. Ends when its connection is closed."""
    files = _local(*json.loads(sys.argv[-1]))
    line = socket.socket(fileno=os.dup(1))
    os.dup2(2, 1)
    while True:
        question, given, _, _ = socket.recv_fds(line, PACKET_BYTES, 1)
        if not question:
            return
        call, path = json.loads(question)
        try:
            value, made = _answer(files, call, path, given)
            answer = json.dumps(["ok", value])
        except ToolError as error:
            answer, made = json.dumps(["error", str(error)[: PACKET_BYTES // 8]]), None
        finally:
            for fd in given:
                os.close(fd)
        if made is None:
            line.send(answer.encode())
        else:
            with made:
                descriptor = made.descriptor if isinstance(made, OpenFolder) else made.fileno()
                socket.send_fds(line, [answer.encode()], [] if descriptor is None else [descriptor])


def _local(
    keys: str, agent_dir: str | None, cwd: str, sessions: str | None, executables: Sequence[str] = ()
) -> LocalFiles:
    """`agent_dir` is None if tools may write protected files."""
    if agent_dir is None:
        return LocalFiles(keys)
    return LocalFiles(
        keys, ProtectedFiles(agent_dir, cwd, None if sessions is None else Path(sessions), lambda: executables)
    )


def _answer(
    files: LocalFiles, call: str, path: str, given: Sequence[int]
) -> tuple[Any, BinaryIO | OpenFile | OpenFolder | None]:
    match call:
        case "open":
            file = files.open(path)
            return file.path, file
        case "folder":
            folder = files.folder(path)
            return folder.path, folder
        case "entries":
            return None, _memory(json.dumps([(entry.name, entry.is_folder) for entry in files.entries(path)]).encode())
        case "replace":
            with os.fdopen(os.dup(given[0]), "rb") as content:
                content.seek(0)
                files.replace(path, content.read())
            return None, None
        case "real":
            return files.real(path), None
        case "is_secret":
            # The caller closes the received descriptor.
            at = OpenFolder("", os.dup(given[0])) if given else None
            try:
                return files.is_secret(path, at), None
            finally:
                if at is not None:
                    at.close()
    return files.kind(path), None


def _memory(data: bytes) -> BinaryIO:
    """Return a memory file with this content, positioned at its start."""
    file = os.fdopen(os.memfd_create("tau"), "w+b")
    file.write(data)
    file.seek(0)
    return file
