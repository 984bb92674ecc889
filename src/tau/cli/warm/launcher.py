"""The launcher: describes its process to a warm worker, waits for the end of the job, and ends in the same way.

    launcher                                   worker (server.py, worker.py)
    request, its working folder           -->  compares both processes, takes over environment, signals, ...
                                          <--  READY and its process id, or the connection is closed
    GO, its descriptors                   -->  runs the job
                                          <--  how the job ended

Until GO either side can give up, and the launcher then starts cold, as if there were no server. It loads no module of
tau and little of Python's: its cost is the cost of a warm start.
"""

# Without `from __future__ import annotations`, which loads a module. _signal is what `signal` wraps into enumerations.
import _signal as signal  # type: ignore[import-not-found]
import marshal
import os
import sys
from _socket import AF_UNIX, SCM_RIGHTS, SO_PEERCRED, SOCK_CLOEXEC, SOCK_STREAM, SOL_SOCKET, socket

import tau

TYPE_CHECKING = False  # type checkers treat it as true; importing the real one would load typing
if TYPE_CHECKING:
    from typing import NoReturn

PROTOCOL = 1
GIVE_UP_S = 1.0  # without an answer: a stopped or overloaded server
MAX_DESCRIPTORS = 200  # of one message; the kernel allows 253
PORTION = 1 << 16
READY, GO = b"r", b"g"
WILL_EXIT, EXITED, KILLED = b"wek"  # first byte of a message about the end; the second is the code or the signal
FORWARDED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH")
HANDLED = (*FORWARDED, "SIGTSTP", "SIGCONT")


def launch(program: str, path: str) -> None:
    """Run the job of this process in a worker, and end as it ends. Returns if it cannot be handed over."""
    if os.isatty(0) or os.isatty(1) or not _is_private(os.path.dirname(path)):
        return
    connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC)
    try:
        connection.settimeout(GIVE_UP_S)
        connection.connect(path)
        if not _is_own(connection):
            raise ValueError("the server belongs to another user")
        worker = _hand_over(connection, program)
        mask = _start(connection) if worker else set()
    except (OSError, ValueError):
        worker = 0
    if not worker:
        connection.close()
        return
    _wait(connection, worker, mask)


def _is_private(folder: str) -> bool:
    """Not a link: another user could let it lead elsewhere in the next moment."""
    found = os.lstat(folder)
    is_folder = found.st_mode & 0o170000 == 0o040000  # `stat` would have to be loaded
    return is_folder and found.st_uid == os.getuid() == os.geteuid() and not found.st_mode & 0o077


def _is_own(connection: socket) -> bool:
    """True if the process at the other end is of this user: it is sent the environment, with keys."""
    found: bytes = connection.getsockopt(SOL_SOCKET, SO_PEERCRED, 12)  # pid, uid, gid
    return int.from_bytes(found[4:8], sys.byteorder) == os.getuid()


def _hand_over(connection: socket, program: str) -> int:
    """Describe the job to the worker at the other end. Returns its process id; 0 if it refuses."""
    data = marshal.dumps(_request(program, _inherited()))
    data = len(data).to_bytes(4, "big") + data
    folder = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        count = connection.sendmsg([data[:PORTION]], [_rights([folder])])
    finally:
        os.close(folder)
    connection.sendall(data[count:])
    answer = connection.recv(5)
    if len(answer) != 5 or answer[:1] != READY:
        return 0
    return int.from_bytes(answer[1:], "big")


def _start(connection: socket) -> "set[int]":
    """Let the worker begin. From here on signals wait until `_wait` can forward them. Returns the mask before that."""
    mask: set[int] = signal.pthread_sigmask(signal.SIG_BLOCK, [getattr(signal, name) for name in HANDLED])
    try:
        # Not earlier: descriptors that are not received stay open, and a reader of stdout would wait for their end.
        connection.sendmsg([GO], [_rights(_inherited())])
    except OSError:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        raise
    return mask


def _rights(descriptors: list[int]) -> tuple[int, int, bytes]:
    """Descriptors as ancillary data. `array("i", ...)` would do the same, but would have to be loaded."""
    return SOL_SOCKET, SCM_RIGHTS, b"".join(number.to_bytes(4, sys.byteorder) for number in descriptors)


def _inherited() -> list[int]:
    """The descriptors that this process was started with. Python's own are not inheritable."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.get_inheritable(int(name)):
                found.append(int(name))
        except OSError:  # of listdir itself
            continue
    if not {0, 1, 2} <= set(found) or len(found) > MAX_DESCRIPTORS:
        raise ValueError("not the descriptors of a usual process")
    return sorted(found)


def _request(program: str, descriptors: list[int]) -> dict[str, object]:
    return {
        "protocol": PROTOCOL,
        "program": program,
        "argv": sys.argv,
        "orig_argv": sys.orig_argv,
        "path": sys.path,
        "environment": dict(os.environb),
        "descriptors": descriptors,
        "python": python(),
        "tau": (tau.__version__, tau.__file__),
    }


def python() -> dict[str, object]:
    """What the command line and the environment have decided when this Python was started."""
    return {
        "executable": sys.executable,
        "version": sys.version,
        "prefix": sys.prefix,
        "flags": tuple(sys.flags),
        "warnings": sys.warnoptions,
        "options": sys._xoptions,
        "files": (sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()),
        "streams": [(stream.encoding, stream.errors) for stream in (sys.stdin, sys.stdout, sys.stderr)],
    }


def _wait(connection: socket, worker: int, mask: "set[int]") -> "NoReturn":
    """Forward signals until the job has ended."""

    def forward(number: int, frame: object) -> None:
        _kill(worker, number)

    def stop(number: int, frame: object) -> None:
        _kill(worker, signal.SIGSTOP)  # SIGTSTP has no effect on it: it has no terminal
        os.kill(os.getpid(), signal.SIGSTOP)

    def go_on(number: int, frame: object) -> None:
        _kill(worker, signal.SIGCONT)

    handlers = {**dict.fromkeys(FORWARDED, forward), "SIGTSTP": stop, "SIGCONT": go_on}
    for name, handler in handlers.items():
        if signal.getsignal(getattr(signal, name)) != signal.SIG_IGN:
            signal.signal(getattr(signal, name), handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    _let_go()
    connection.settimeout(None)
    kind, value = _end(connection)
    if kind == KILLED:
        if value != signal.SIGKILL:
            signal.signal(value, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [value])
        os.kill(os.getpid(), value)
        value += 128
    os._exit(value)


def _kill(worker: int, number: int) -> None:
    try:
        os.kill(worker, number)
    except ProcessLookupError:
        return  # it has ended just now


def _let_go() -> None:
    """Leave the descriptors to the worker: a pipe ends only when every process has closed it."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in _inherited():
        if number > 2:
            os.close(number)
        else:
            os.dup2(nothing, number)
    os.close(nothing)


def _end(connection: socket) -> tuple[int, int]:
    """How the job ended: as the server says, else as the worker said, else it was killed."""
    data, last = b"", (KILLED, 9)
    while portion := _receive(connection):
        data += portion
        while len(data) >= 2:
            last, data = (data[0], data[1]), data[2:]
            if last[0] != WILL_EXIT:
                return last
    return last


def _receive(connection: socket) -> bytes:
    try:
        return connection.recv(64)
    except OSError:  # the other side was killed
        return b""
