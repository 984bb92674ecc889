"""Start a command, hear of its end, and end all that came from it.

On Linux a process of our own does it (runner.py): then nothing a command starts
can get away, and nothing outlives us. Elsewhere, and where that process cannot
be had, a command leads a process group and to end it is to kill the group: a
process that leaves its group is not found again, and nothing is killed when we
are killed ourselves. In a sandbox there is no such second way: it is the runner
that is confined, and without one nothing is started.
"""

from __future__ import annotations

import asyncio
import errno
import io
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from tau.errors import ToolError

if TYPE_CHECKING:
    from tau.host.sandbox import Sandbox

log = logging.getLogger(__name__)
T = TypeVar("T")

RUNNER = Path(__file__).with_name("runner.py")
PATIENCE = 0.6  # seconds to wait for what was killed: the kernel may hold it back, or it may not be ours to kill
READY = 20.0  # seconds for a sandbox to be made; a tenth of one is usual
NEEDED = ("LD_LIBRARY_PATH",)  # what the interpreter itself may need of the environment; secrets are none of that
LOST = (
    "The process that watched over this command was killed, and the command with it. It may have done part of its work."
)
NUL = "Neither a command nor its environment can contain a NUL character"


class CannotConfine(Exception):
    """There is no sandbox; why, as the end of a sentence."""


class Order(NamedTuple):
    """A program to run: its words, its folder, its environment, and the descriptors for its output."""

    words: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    stdout: int
    stderr: int


class Way(Protocol):
    """A command that was started in some way. What happens to it is told in the words of runner.py; b"" is the end."""

    def kill(self) -> None: ...

    def is_alive(self) -> bool: ...


class Processes:
    """Starts commands in the best way this system has."""

    def __init__(self, program: Path = RUNNER, *, shared: bool = False, sandbox: Sandbox | None = None) -> None:
        """`shared`: one runner is enough for all in this process; it ends with the last of them. None is in a sandbox.

        With `sandbox` all commands run in it. Its runner is started at once: raises CannotConfine.
        """
        self._program = program
        self._shared = shared and sandbox is None
        self.sandbox = sandbox
        self._runner: Runner | None = None
        self._failures = 0  # runners in a row that did nothing
        can = sys.platform == "linux" and sys.executable and not hasattr(sys, "frozen") and program.is_file()
        self._groups = not can  # there is no other way, or none has worked
        self._leave: Callable[[], object] = _nothing
        self._beginning = threading.Lock()
        if sandbox is not None:
            self._groups = False
            self._begin()

    def post(self, words: Sequence[str], stdout: int) -> socket.socket:
        """Run a program in the sandbox, from any thread. It ends when what is returned is closed."""
        with open(os.devnull, "wb") as nowhere:
            order = Order(words, "/", {}, stdout, nowhere.fileno())
            return self._confined().post(order)

    def start(self, order: Order, tell: Callable[[bytes], None]) -> Way:
        """What cannot be started at all is a ToolError."""
        if self.sandbox is not None:
            return self._confined().start(order, tell)
        if not self._groups and self._runner is None:
            try:
                self._runner = shared_runner(self._program) if self._shared else Runner(self._program)
                self._leave = weakref.finalize(self, self._runner.leave)
            except (OSError, RuntimeError) as error:  # no such program, too many files, too many threads
                self._give_up(str(error))
        return self._runner.start(order, tell) if self._runner else Group(order, tell)

    def note(self, way: Way, *, begun: bool) -> None:
        """Whether a command has begun. If not its runner is dead, and another may live; two are not just bad luck."""
        if isinstance(way, Kept) and way.runner is self._runner:
            self._failures = 0 if begun else self._failures + 1
            if not begun:
                way.runner.dead = True
                self.release()
            if self._failures == 2 and self.sandbox is None:
                self._give_up("it ends at once")

    def release(self) -> threading.Thread | None:
        """Nothing more will be started here. If that ends a runner, the thread that waits for its end."""
        runner, self._runner = self._runner, None
        self._leave()
        return runner.ended if runner is not None and not runner.users else None

    def _begin(self) -> Runner:
        runner = Runner(self._program, self.sandbox)
        self._runner, self._leave = runner, weakref.finalize(self, runner.leave)
        return runner

    def _confined(self) -> Runner:
        if self._failures > 2:
            raise ToolError("The sandbox ends as soon as it is made. Nothing is run without it.")
        with self._beginning:
            try:
                return self._runner or self._begin()
            except CannotConfine as error:
                raise ToolError(f"The sandbox cannot be made any more: {error}. Nothing is run without it.") from None

    def _give_up(self, why: str) -> None:
        log.warning("no tool runner: %s; a process that leaves its group may outlive its command", why)
        self._groups = True


class Job:
    """A command, from its start until nothing is left of it. Closes the descriptors of the order.

    The futures belong to the running loop; `kill` and `is_alive` need none.
    """

    def __init__(self, order: Order, processes: Processes) -> None:
        loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[int | ToolError] = loop.create_future()  # a return code as subprocess counts them
        self.over: asyncio.Future[None] = loop.create_future()
        self._order = order
        self._processes = processes
        self._begun = False
        self._killed = False
        self._way = self._start()

    def kill(self) -> None:
        """End it and all that came from it. Does not wait."""
        self._killed = True
        self._way.kill()

    def is_alive(self) -> bool:
        """Whether anything may be left of it."""
        return self._way.is_alive()

    async def end(self) -> None:
        """Kill, and wait for the end, but no longer than PATIENCE."""
        self.kill()
        await asyncio.wait({self.over}, timeout=PATIENCE)

    def _start(self) -> Way:
        try:
            return self._processes.start(self._order, self._hear)
        except BaseException:
            self._close()
            raise

    def _hear(self, said: bytes) -> None:
        what, _, number = said.partition(b" ")
        if not self._begun:
            if said or not self._killed:
                self._processes.note(self._way, begun=bool(said))
            if not said and not self._killed:
                self._again()
                return
            self._begun = True
            self._close()
        if what == b"exit":
            _settle(self.exited, int(number))
        elif number:
            _settle(self.exited, _refusal(what.decode(), int(number), self._order))
        elif not said:
            _settle(self.exited, -signal.SIGKILL if self._killed else ToolError(LOST))
            _settle(self.over, None)

    def _again(self) -> None:
        """Nothing came of it: the runner was dead."""
        try:
            self._way = self._start()
        except ToolError as error:
            _settle(self.exited, error)
            _settle(self.over, None)

    def _close(self) -> None:
        for end in {self._order.stdout, self._order.stderr}:
            os.close(end)


def _settle(future: asyncio.Future[T], value: T) -> None:
    if not future.done():
        future.set_result(value)


def _nothing() -> None:
    pass


class Runner:
    """The running runner.py, as long as it has users. Raises CannotConfine if it is to be in a sandbox and is not."""

    def __init__(self, program: Path, sandbox: Sandbox | None = None) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                words = [sys.executable, "-I", "-S", str(program)] if sandbox is None else sandbox.words()
                process = subprocess.Popen(
                    words,
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    env={name: os.environ[name] for name in NEEDED if name in os.environ},
                    cwd="/",
                    start_new_session=True,
                )
            except BaseException:
                ours.close()
                if sandbox is not None:
                    sandbox.clear()
                raise
        if sandbox is not None:
            _wait_for(ours, process)
        ours.setblocking(False)
        self._line = ours
        self.dead = False
        self.users = 1
        self._close = weakref.finalize(self, ours.close)
        self.ended = threading.Thread(target=process.wait, name="wait for the tool runner", daemon=True)
        self.ended.start()

    def leave(self) -> None:
        """One user less; the last one ends it."""
        with _starting:
            self.users -= 1
            if not self.users:
                self._close()

    def start(self, order: Order, tell: Callable[[bytes], None]) -> Kept:
        return Kept(self, self.post(order), tell)

    def post(self, order: Order) -> socket.socket:
        """The line to the keeper of a command."""
        try:
            with _request(order) as request:
                ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                # If the runner is dead or stuck this fails, and that their end is closed will tell.
                with theirs, suppress(OSError):
                    fds = [theirs.fileno(), request.fileno(), order.stdout, order.stderr]
                    socket.send_fds(self._line, [b"start"], fds)
        except OSError as error:
            raise _refusal("fork", error.errno or 0, order) from None
        return ours


def _wait_for(line: socket.socket, process: subprocess.Popen[bytes]) -> None:
    line.settimeout(READY)
    try:
        said = line.recv(4096)
    except OSError:
        said = b"refused it is not ready after %d seconds" % READY
    if said != b"ready":
        line.close()
        process.wait()  # it hears that, and clears up
        raise CannotConfine(said.removeprefix(b"refused").decode("utf-8", "replace").strip() or "it ends at once")


_running: weakref.WeakValueDictionary[Path, Runner] = weakref.WeakValueDictionary()
_starting = threading.Lock()


def shared_runner(program: Path) -> Runner:
    """The runner that others in this process have, or a new one for all."""
    with _starting:
        runner = _running.get(program)
        if runner is None or runner.dead or not runner.users:
            runner = _running[program] = Runner(program)
        else:
            runner.users += 1
        return runner


def _request(order: Order) -> io.FileIO:
    """A file for the runner, because a message has a limit that some environments are beyond."""
    fields = [order.cwd, str(len(order.words)), *order.words, *(f"{name}={value}" for name, value in order.env.items())]
    data = b"\0".join(map(os.fsencode, fields))
    if data.count(b"\0") >= len(fields):
        raise ToolError(NUL)
    file = io.FileIO(os.memfd_create("command"), "wb")
    try:
        rest = memoryview(data)
        while rest:  # a limit on the size of files cuts it, and half a command must never be run
            rest = rest[file.write(rest) :]
    except OSError:
        file.close()
        raise
    return file


class Kept:
    """A command below a keeper: our end of its line."""

    def __init__(self, runner: Runner, line: socket.socket, tell: Callable[[bytes], None]) -> None:
        self.runner = runner
        self._line = line
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._close = weakref.finalize(self, line.close)
        line.setblocking(False)
        self._loop.add_reader(line, self._hear)

    def kill(self) -> None:
        if self._loop.is_closed():  # nobody will hear the rest
            self._close()
        elif self._close.alive:
            with suppress(OSError):  # their end is gone already
                self._line.shutdown(socket.SHUT_WR)

    def is_alive(self) -> bool:
        return self._close.alive

    def _hear(self) -> None:
        try:
            said = self._line.recv(64)
        except BlockingIOError:
            return
        except OSError:
            said = b""
        words = said.removesuffix(b"gone").rstrip()
        if words:
            self._tell(words)
        if not words or words != said:
            self._loop.remove_reader(self._line)
            self._close()
            # They know each other, and without this the runner would live until somebody collects garbage.
            tell, self._tell = self._tell, _nobody
            tell(b"")


def _nobody(said: bytes) -> None:
    pass


class Group:
    """A command as the leader of a process group."""

    def __init__(self, order: Order, tell: Callable[[bytes], None]) -> None:
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._process = _popen(order)
        self._waited = False
        try:
            # A thread waits, because not every system can wait in the loop.
            threading.Thread(target=self._wait, name=f"wait for {self._process.pid}", daemon=True).start()
        except RuntimeError as error:  # there are too many threads
            _signal(self._process.pid)
            self._process.wait()
            raise ToolError(f"Cannot run the command: {error}") from None
        self._loop.call_soon(tell, b"taken")

    def kill(self) -> None:
        if self.is_alive():
            _signal(self._process.pid)

    def is_alive(self) -> bool:
        return not self._waited or _is_left(self._process.pid)

    def _wait(self) -> None:
        code = self._process.wait()
        self._waited = True
        with suppress(RuntimeError):  # the loop is closed, so nobody asks any more
            self._loop.call_soon_threadsafe(self._tell, b"exit %d" % code)
            self._loop.call_soon_threadsafe(self._tell, b"")


def _popen(order: Order) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            order.words,
            cwd=order.cwd,
            env=order.env,
            stdin=subprocess.DEVNULL,
            stdout=order.stdout,
            stderr=order.stderr,
            start_new_session=True,
        )
    except OSError as error:
        what = "cwd" if error.filename == order.cwd else "exec" if error.filename else "fork"
        raise _refusal(what, error.errno or 0, order) from None
    except ValueError:
        raise ToolError(NUL) from None


def _refusal(what: str, number: int, order: Order) -> ToolError:
    """Why a command could not be started."""
    if number == errno.E2BIG:
        return ToolError("The command is too long for the system; write it to a file and run that")
    if what == "crowd":
        return ToolError(f"The command had more than {number} processes at once. It was ended, and all of them.")
    why = os.strerror(number)
    if what == "cwd":
        return ToolError(f"Cannot work in {order.cwd}: {why}")
    return ToolError(f"Cannot start {order.words[0]!r}: {why}" if what == "exec" else f"Cannot run the command: {why}")


def _signal(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass
    except PermissionError:  # somebody in the group is not ours to kill; its leader is
        with suppress(OSError):
            os.kill(group, signal.SIGKILL)


def _is_left(group: int) -> bool:
    """Whether processes of a group are alive whose leader is dead.

    No new process gets a number that is still the number of a group. So when there
    is one again, the group is gone and the number belongs to a stranger.
    """
    return _exists(os.killpg, group) and not _exists(os.kill, group)


def _exists(kill: Callable[[int, int], None], number: int) -> bool:
    try:
        kill(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
