"""The warm-start server: keeps one worker ready, and watches the jobs that workers have taken.

    python -c "from tau.cli.warm.server import main; main()" FOLDER

It loads tau once and forks. The worker accepts a launcher by itself and sends the connection here; the next worker is
forked then. The server reports the end of each worker to its launcher, and stops the worker of a launcher that is gone.
It has one thread and no event loop, because it forks.
"""

from __future__ import annotations

import fcntl
import gc
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from tau.cli.main import FRONT_ENDS, MODES, load_quickly
from tau.cli.warm.launcher import EXITED, KILLED
from tau.cli.warm.likeness import STALE, ServerState

READY = b"ready\n"  # on stdout, for `tau warm start`
LOCK = "lock"  # held as long as the server accepts launchers; contains its process id
BACKLOG = 128  # launchers that wait for the next worker
KILL_DELAY_S = 5.0  # after SIGTERM
MAX_IDLE_DEATHS = 5  # of workers that never got a job, one after another
# What the modes load at once or with the first prompt. A command or an extension loads the rest itself.
PRELOADED = (
    *(FRONT_ENDS[mode] for mode in MODES),
    *("tau.cli.session_options", "tau.cli.prompts", "tau.cli.warm.worker", "tau.store.resources"),
    *("tau.llm.http_pool", "tau.llm.anthropic", "tau.llm.openai_chat", "tau.llm.openai_responses"),
    *("tau.tools.read", "tau.tools.edit", "tau.tools.write"),
)


class Server:
    """Listens in a folder that only this user can enter."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = folder.stat()
        if state.st_uid != os.getuid() or state.st_mode & 0o077:
            raise PermissionError(f"{folder} must belong to you, and be accessible to you alone (chmod 700)")
        self._path = folder / "socket"
        self._lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.truncate(self._lock, 0)
        os.write(self._lock, b"%d" % os.getpid())
        self._path.unlink(missing_ok=True)
        self._listener: socket.socket | None = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(self._path))
        self._path.chmod(0o600)
        self._listener.listen(BACKLOG)
        self._idle = 0  # process id of the worker without a job
        self._control: socket.socket | None = None  # to it
        self._idle_deaths = 0
        self._jobs: dict[int, socket.socket] = {}
        self._to_kill: dict[int, float] = {}  # workers whose launcher is gone, and when they are killed
        self._signals, self._wake_up = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def serve(self) -> socket.socket | None:
        """Returns twice: in a worker the connection to its launcher, and in the server None when all is over."""
        signal.set_wakeup_fd(self._wake_up, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, _noted)
        while self._listener is not None or self._jobs:
            if self._listener is not None and not self._idle and (taken := self._fork()) is not None:
                return taken
            self._wait()
        return None

    def _fork(self) -> socket.socket | None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._idle = os.fork()
        if self._idle:
            theirs.close()
            self._control = ours
            return None
        ours.close()
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        for descriptor in (self._lock, self._signals, self._wake_up):
            os.close(descriptor)
        for connection in self._jobs.values():
            connection.close()
        assert self._listener is not None
        return _take_connection(self._listener, theirs)

    def _wait(self) -> None:
        """Handle what happens next."""
        poll = select.poll()
        poll.register(self._signals, select.POLLIN)
        if self._control is not None:
            poll.register(self._control, select.POLLIN)
        for pid, connection in self._jobs.items():
            if pid not in self._to_kill:
                poll.register(connection, select.POLLRDHUP)  # not POLLIN: the worker reads it
        happened = {number for number, _ in poll.poll(KILL_DELAY_S * 1000 if self._to_kill else None)}
        if self._control is not None and self._control.fileno() in happened:
            self._worker_started()
        if self._signals in happened:
            received = os.read(self._signals, 4096)
            self._reap()
            if set(received) & {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}:
                self._stop()
        for pid, connection in list(self._jobs.items()):
            if connection.fileno() in happened:
                self._kill(pid, signal.SIGTERM)
                self._to_kill[pid] = time.monotonic() + KILL_DELAY_S
        for pid, when in self._to_kill.items():
            if when <= time.monotonic():
                self._kill(pid, signal.SIGKILL)

    def _worker_started(self) -> None:
        """The idle worker has sent its connection, or has ended."""
        assert self._control is not None
        try:
            _, descriptors, _, _ = socket.recv_fds(self._control, 1, 1)
        except OSError:
            descriptors = []
        self._control.close()
        self._control = None
        if descriptors:
            self._jobs[self._idle] = socket.socket(fileno=descriptors[0])
            self._idle = self._idle_deaths = 0

    def _reap(self) -> None:
        while self._idle or self._jobs:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid == self._idle and self._control is not None:
                self._worker_started()  # it may have taken a job before it ended
            self._ended(pid, os.waitstatus_to_exitcode(status))

    def _ended(self, pid: int, code: int) -> None:
        if pid == self._idle:
            self._idle = 0
            self._idle_deaths += 1
            if self._idle_deaths > MAX_IDLE_DEATHS:
                self._stop()
            return
        self._to_kill.pop(pid, None)
        connection = self._jobs.pop(pid)
        with suppress(OSError):  # the launcher is gone
            connection.send(bytes([KILLED, -code] if code < 0 else [EXITED, code]), socket.MSG_DONTWAIT)
        connection.close()
        if code == STALE:
            self._stop()

    def _stop(self) -> None:
        """Accept no more launchers. Running jobs are watched until they end."""
        if self._listener is None:
            return
        self._path.unlink(missing_ok=True)
        self._listener.close()
        self._listener = None
        os.close(self._lock)
        if self._control is not None:
            self._control.close()  # the idle worker ends
            self._control = None

    def _kill(self, pid: int, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _take_connection(listener: socket.socket, control: socket.socket) -> socket.socket:
    """In a worker: wait for a launcher, and let the server know. Exits when the server has ended."""
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    poll.register(control, select.POLLIN)
    if any(number == control.fileno() for number, _ in poll.poll()):
        os._exit(0)
    connection, _ = listener.accept()
    try:
        socket.send_fds(control, [b"j"], [connection.fileno()])
    except OSError:
        os._exit(0)
    control.close()
    listener.close()
    return connection


def _noted(number: int, frame: object) -> None:
    """A handler, so that the number is written to the wake-up descriptor."""


def main() -> None:
    folder = Path(sys.argv[1])
    os.umask(0o077)
    load_quickly()
    for name in PRELOADED:
        import_module(name)
    worker = import_module("tau.cli.warm.worker")
    worker.prepare()
    state = ServerState()
    try:
        server = Server(folder)
    except BlockingIOError:
        sys.exit("there is one already")
    except OSError as error:
        sys.exit(str(error))
    os.chdir("/")
    gc.freeze()
    os.write(1, READY)
    os.dup2(0, 1)
    os.dup2(0, 2)
    connection = server.serve()
    if connection is not None:
        worker.accept_job(connection, state).run()
