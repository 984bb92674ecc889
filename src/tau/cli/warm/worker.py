"""The worker: a process that has loaded tau, waits for one launcher, and takes its place."""

from __future__ import annotations

import fcntl
import io
import marshal
import os
import signal
import socket
import struct
import sys
import time
from _locale import LC_CTYPE, setlocale
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tau.cli import main as programs
from tau.cli import session_options
from tau.cli.flags import parse
from tau.cli.warm.launcher import GO, READY, WILL_EXIT
from tau.cli.warm.likeness import DECLINED, STALE, ServerState, is_changed, status_of, unlike_process, unlike_request
from tau.errors import UsageError
from tau.llm.catalog import ProviderConfig
from tau.records.base import BadRecord, decode
from tau.records.commands import GetState, Prompt
from tau.records.settings import Settings
from tau.runtime.app import process
from tau.runtime.protocol.requests import Envelope

REQUEST_TIMEOUT_S = 5.0
MAX_REQUEST_BYTES = 1 << 24
CREDENTIALS = struct.Struct("3i")  # process, user, group


def prepare() -> None:
    """Called in the server: make the decoders that every start needs, which are made at their first use."""
    for kind in (Settings, ProviderConfig, Envelope, Prompt, GetState):
        with suppress(BadRecord):
            decode(kind, b"{}")


class Job:
    """The job of a launcher that a worker has taken over."""

    def __init__(self, connection: socket.socket, program: str) -> None:
        self._connection = connection
        self._program = program

    def run(self) -> None:
        """Run it. Ends the process, as the program does in a process of its own."""
        process.on_exit(self._tell)
        try:
            programs.process(self._program)
        except SystemExit as end:
            self._tell(end.code if isinstance(end.code, int) else 0)
            raise

    def _tell(self, code: int) -> None:
        """Tell the launcher the exit code. The server tells it again, but it may have been killed."""
        try:
            self._connection.send(bytes([WILL_EXIT, code & 255]))
        except OSError:  # the launcher is gone
            return


def accept_job(connection: socket.socket, server: ServerState) -> Job:
    """Take over the job of the launcher at the other end. Exits if it is not one for this worker."""
    launcher, user, _ = CREDENTIALS.unpack(
        connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    )
    if user != os.getuid():
        os._exit(DECLINED)
    if is_changed(server.files):
        os._exit(STALE)
    if unlike_process(launcher):
        os._exit(DECLINED)
    try:
        connection.settimeout(REQUEST_TIMEOUT_S)
        request, folder = receive(connection)
        if unlike_request(request, server):
            os._exit(DECLINED)
        replace_process(request, folder, launcher)
        if keeps_secrets(request["argv"][1:]):
            os._exit(DECLINED)
        connection.sendall(READY + os.getpid().to_bytes(4, "big"))
        connection = replace_descriptors(connection, request)
    except (OSError, ValueError, EOFError, TypeError, KeyError):
        os._exit(DECLINED)
    return Job(connection, request["program"])


def receive(connection: socket.socket) -> tuple[dict[str, Any], int]:
    """Read the request of a launcher, and its folder. Raises ValueError and other errors if it is not one."""
    data, (folder,), _, _ = socket.recv_fds(connection, 1 << 16, 1)
    size = int.from_bytes(data[:4], "big")
    if not 0 < size < MAX_REQUEST_BYTES:
        raise ValueError("not a request")
    parts, missing = [data[4:]], size + 4 - len(data)
    while missing > 0 and (portion := connection.recv(missing)):
        parts.append(portion)
        missing -= len(portion)
    request: dict[str, Any] = marshal.loads(b"".join(parts))
    return request, folder


def replace_process(request: Mapping[str, Any], folder: int, launcher: int) -> None:
    """Take over what the launcher's process has, apart from its descriptors."""
    os.fchdir(folder)
    os.close(folder)
    os.environ.clear()
    os.environb.update(request["environment"])
    time.tzset()
    setlocale(LC_CTYPE, "")
    sys.argv[:] = request["argv"]
    sys.orig_argv[:] = request["orig_argv"]
    sys.path[:] = request["path"]
    _take_signals(status_of(str(launcher)))


def replace_descriptors(connection: socket.socket, request: Mapping[str, Any]) -> socket.socket:
    """Receive GO and the launcher's descriptors, with their numbers. Returns the connection, out of their way."""
    wanted: list[int] = request["descriptors"]
    go, received, _, _ = socket.recv_fds(connection, 1, 253)
    if go != GO or len(received) != len(wanted):
        raise ValueError("the launcher has given up")
    above = max([*wanted, *received, connection.fileno()]) + 1
    moved = socket.socket(fileno=fcntl.fcntl(connection.fileno(), fcntl.F_DUPFD_CLOEXEC, above))
    connection.close()
    copies = [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, above) for number in received]
    for number in received:
        os.close(number)
    for copy, number in zip(copies, wanted, strict=True):
        os.dup2(copy, number)
        os.close(copy)
    streams = request["python"]["streams"]
    sys.stdin = sys.__stdin__ = _stream(0, "r", *streams[0])  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _stream(1, "w", *streams[1])  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _stream(2, "w", *streams[2])  # type: ignore[misc]
    moved.settimeout(None)
    return moved


def _take_signals(status: Mapping[str, str]) -> None:
    """Umask, ignored and blocked signals: as Python would have found them at the launcher's start."""
    os.umask(int(status["Umask"], 8))
    ignored, blocked = (_numbers(status[name]) for name in ("SigIgn", "SigBlk"))
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        handler: Any = signal.SIG_IGN if number in ignored else signal.SIG_DFL
        if number == signal.SIGINT and number not in ignored:
            handler = signal.default_int_handler
        signal.signal(number, handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _numbers(mask: str) -> set[int]:
    bits = int(mask, 16)
    return {number for number in range(1, 65) if bits >> number - 1 & 1}


def _stream(number: int, mode: str, encoding: str, errors: str) -> Any:
    """As Python makes sys.stdin and the others at its start."""
    buffer: Any = open(number, mode + "b", closefd=False)  # noqa: SIM115, it lives as long as the process
    lines = number == 2 or buffer.isatty()
    text = io.TextIOWrapper(buffer, encoding, errors, newline="\n", line_buffering=lines)
    vars(text)["mode"] = mode
    return text


def keeps_secrets(argv: list[str]) -> bool:
    """Whether the program would hide its memory or arguments from its commands: it cannot hide the launcher's."""
    try:
        arguments = parse(argv)
    except UsageError:  # the program will report it
        return False
    if "api-key" in arguments.flags:
        return True
    return session_options.hides_memory(arguments)
