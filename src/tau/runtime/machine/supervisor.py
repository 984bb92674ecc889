"""The tool runner: a process of its own that starts commands, so that it can end all they started.

It is run by its path, on Linux, and must stay small: every command is a fork of
it. So it knows nothing of tau; processes.py is its other side.

    agent ── runner ── keeper ── the command, and whatever comes from it
                    └─ keeper ── the next command ...

Each command has a keeper, which is a subreaper: whatever the command starts
stays below its keeper, by whatever name, session or fork it hides. A keeper
has no other command as long as anything is below it, and kills all of it when its
line to the agent ends or when the runner does. Both happen by themselves when the agent
dies, however it dies.

The agent sends one message per command with these descriptors: the keeper's
line, a file with the request, where stdout and stderr go, and, if the message is
AT, the folder to run in. A folder is handed over as a descriptor because a path
such as /proc/self/cwd names another folder in each process. A keeper says

    taken        from here on the command may have run
    exit N       it ended; N is minus the signal, if one ended it
    cwd N, exec N, fork N
                 it could not be started: errno
    crowd N      it had more than N processes, and is being ended with all of them
    gone         nothing is left of it; may follow in the same message

and then its line ends. A line that ends before the first word means that the
command was never started.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import os
import resource
import select
import signal
import socket
import sys
from collections.abc import Iterable

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36

CONFINED = "confined"  # the word that says that we are in a sandbox, see confine.py

END = signal.SIGUSR1  # from the kernel: the parent is dead
# A command that looks for processes to kill must not hit us with a signal that has a polite meaning. These are handled
# and not ignored, because what is handled is back at its default in a program that is executed.
HEARD = (signal.SIGCHLD, END, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE)

PAUSE = 5  # milliseconds between two rounds of killing
ROUNDS = 2000  # what lives longer cannot be killed: it belongs to another user, or hangs in the kernel

CROWD = 2000  # processes of one command at a time; then it is ended, before there is no room for anybody else
PULSE = 100  # milliseconds between two looks at how many there are
FILE_SIZE = 16 << 30  # bytes; a soft limit, against accidents: a command that needs more says `ulimit -f unlimited`

prctl = ctypes.CDLL(None, use_errno=True).prctl
prctl.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)

# What a list of processes shows, as addresses of the texts.
_NAMES = [ctypes.create_string_buffer(name) for name in (b"tau-runner", b"tau-keeper")]
RUNNER, KEEPER = map(ctypes.addressof, _NAMES)

# Messages: with 4 descriptors, where the request names the folder; with 5, of which the last is the folder.
START, AT = b"start", b"start at"
MOST_DESCRIPTORS = 5

Fds = list[int]
Order = tuple[bytes, list[bytes], dict[bytes, bytes]]


def main() -> None:
    agent = os.getppid()
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_SIZE if most < 0 else min(FILE_SIZE, most), most))
    gc.disable()
    gc.freeze()  # a collection would touch, and so copy, the memory that the keepers share
    serve(socket.socket(fileno=0), agent, confined=CONFINED in sys.argv[1:])


def serve(line: socket.socket, agent: int, *, confined: bool = False) -> None:
    """Start a keeper for each message, until the line ends."""
    for number in HEARD:
        signal.signal(number, lambda number, frame: None)
    signals = adopt_orphans(RUNNER)
    if confined:
        # Our parent may be outside, where we do not see whether it lives. And no command shall write into our memory.
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
        say(line.fileno(), b"ready")
    keepers: dict[int, socket.socket] = {}
    free: list[int] = []
    poll = select.poll()
    poll.register(line, select.POLLIN)
    poll.register(signals, select.POLLIN)
    while True:
        # Orders last: a keeper that has just become free can take one.
        for ready, _ in sorted(poll.poll(), key=lambda one: one[0] == line.fileno()):
            if ready == signals:
                heard = os.read(signals, 512)
                # The kernel also says so when just the thread that started us has ended.
                if END in heard and os.getppid() != agent:
                    return
            elif ready == line.fileno():
                message, fds, _, _ = socket.recv_fds(line, 16, MOST_DESCRIPTORS)
                if not message:
                    return
                for fd in fds:
                    os.set_inheritable(fd, False)
                if is_complete(message, fds):  # else there were too many for us, and closing them tells
                    start(fds, keepers, free, poll)
                for fd in fds:
                    os.close(fd)
            else:
                release(ready, keepers, free, poll)
        if not reap(keepers):
            kill(below(os.getpid(), spare=keepers))


def start(fds: Fds, keepers: dict[int, socket.socket], free: list[int], poll: select.poll) -> None:
    """By a keeper that has nothing to do, or else by a new one."""
    while free:
        try:
            socket.send_fds(keepers[free.pop()], [AT if len(fds) == MOST_DESCRIPTORS else START], fds)
            return
        except (KeyError, OSError):  # it was killed
            continue
    # The order is read here and not in the keeper, to which all it touches is copied.
    runner, order, usual = os.getpid(), read(fds[1]), running()
    try:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        keeper = os.fork()
    except OSError as error:
        say(fds[0], b"fork %d" % (error.errno or 0))
        return
    if keeper:
        theirs.close()
        keepers[keeper] = ours
        poll.register(ours, select.POLLIN)
        return
    try:
        for other in (ours, *keepers.values()):
            other.close()
        keep(theirs, fds, order, usual, runner)
    finally:
        os._exit(1)


def is_complete(message: bytes, fds: Fds) -> bool:
    """False if the kernel could not deliver all descriptors: the limit on open files was reached."""
    return len(fds) == MOST_DESCRIPTORS - (message != AT)


def release(ready: int, keepers: dict[int, socket.socket], free: list[int], poll: select.poll) -> None:
    """A keeper has done its work. One is kept for the next command, for a fork costs more than most commands do."""
    for keeper, line in keepers.items():
        if line.fileno() == ready:
            if os.read(ready, 16) and not free:
                free.append(keeper)
            else:
                poll.unregister(ready)
                line.close()
            return
    poll.unregister(ready)


def reap(keepers: dict[int, socket.socket]) -> bool:
    """False if anything has died that was not a keeper at the end of its work: then there are orphans here."""
    fine = True
    while True:
        try:
            child, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if not child:
            return fine
        if child not in keepers or status:
            fine = False
        keepers.pop(child, None)


def read(request: int) -> Order:
    """The folder, the words and the environment of a command."""
    cwd, count, *rest = os.pread(request, os.fstat(request).st_size, 0).split(b"\0")
    end = int(count)
    return cwd, rest[:end], dict(item.split(b"=", 1) for item in rest[end:])


def keep(runner_line: socket.socket, fds: Fds, order: Order, usual: int, runner: int) -> None:
    """The life of a keeper: one command after the other. Does not return."""
    os.dup2(1, 0)  # /dev/null
    os.dup2(1, 2)
    signals = adopt_orphans(KEEPER)
    poll = select.poll()
    poll.register(runner_line, select.POLLIN)
    poll.register(signals, select.POLLIN)
    while os.getppid() == runner:
        last = attend(fds, order, usual, signals)
        os.chdir("/")
        say(runner_line.fileno(), b"free")  # first: who hears the last word may order again at once
        if last:
            say(fds[0], last)
        os.close(fds[0])
        message = b""
        while not message and os.getppid() == runner:
            for ready, _ in poll.poll():
                if ready == signals:
                    os.read(signals, 512)
                    continue
                message, fds, _, _ = socket.recv_fds(runner_line, 16, MOST_DESCRIPTORS)
                if not is_complete(message, fds):
                    os._exit(0)
                for fd in fds:
                    os.set_inheritable(fd, False)
                order, usual = read(fds[1]), running()
    os._exit(0)


def attend(fds: Fds, order: Order, usual: int, signals: int) -> bytes:
    """Start a command, and stay until nothing is left of it. What is to be said of that is the result."""
    line, request, stdout, stderr, *folder = fds
    poll = select.poll()
    poll.register(line, select.POLLIN)
    stage, command, last = b"cwd", 0, b""
    if not poll.poll(0):  # else nobody waits for this command any more
        say(line, b"taken")
        try:
            if folder:
                os.fchdir(folder[0])
            else:
                os.chdir(order[0])
            stage = b"exec"
            command = spawn(order, stdout, stderr)
        except OSError as error:
            last = b"%b %d" % (stage, error.errno or 0)
    for fd in (request, stdout, stderr, *folder):
        os.close(fd)
    if command:
        poll.register(signals, select.POLLIN)
        last = watch(command, line, usual, signals, poll)
    return last


def watch(command: int, line: int, usual: int, signals: int, poll: select.poll) -> bytes:
    """Until nothing is left. `usual` is how much ran before."""
    rounds, quiet = 0, False
    while not (last := reap_for(command, line)):
        if rounds == ROUNDS:
            os._exit(1)
        if rounds:
            rounds += 1
            kill(below(os.getpid()))
        elif quiet and (now := running()) > usual + CROWD:
            # Who counts a crowd that grows counts for ever, so it has to stand still.
            signal_group(command, signal.SIGSTOP)
            if len(below(os.getpid())) > CROWD:
                say(line, b"crowd %d" % CROWD)
                signal_group(command, signal.SIGKILL)
                rounds = 1
            else:
                signal_group(command, signal.SIGCONT)
                usual = now
        said = poll.poll(PAUSE if rounds else PULSE)
        quiet = not said
        for ready, _ in said:
            if ready != signals:  # nothing is ever said to us: the line has ended
                poll.unregister(ready)
                rounds = rounds or 1
            elif END in os.read(signals, 512):
                rounds = rounds or 1
                line = -1  # say no more: the agent shall not take this for an end of the command's own
    return last if line >= 0 else b""


def reap_for(command: int, line: int) -> bytes:
    """Tell of the command's end. If nothing is left of it, the result is what is still to be said."""
    news: list[bytes] = []
    while True:
        try:
            child, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return b" ".join([*news, b"gone"])
        if child == command:
            news.append(b"exit %d" % os.waitstatus_to_exitcode(status))
        if not child:
            break
    if news:
        say(line, news[0])
    return b""


def spawn(order: Order, stdout: int, stderr: int) -> int:
    """Start the command in the folder we are in. It inherits its output and nothing else that is open.

    A fork would have the kernel copy what we touch from then on; this way there is nothing to copy.
    """
    _, words, environment = order
    path = environment.get(b"PATH", os.fsencode(os.defpath))
    failure = OSError(errno.ENOENT, "not on the path")
    for place in [b""] if b"/" in words[0] else path.split(b":"):
        try:
            return os.posix_spawn(
                os.path.join(place, words[0]),
                words,
                environment,
                file_actions=[(os.POSIX_SPAWN_DUP2, stdout, 1), (os.POSIX_SPAWN_DUP2, stderr, 2)],
                setsid=True,
            )
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as error:  # another place may have one that can be run
            failure = error
    raise failure


def adopt_orphans(name: int) -> int:
    """Take in whatever loses its parent below us, and hear of our own parent's death. The result tells of signals.

    Keepers have the handlers of the runner already: each page that a keeper touches is a copy, and there is a
    keeper for every command.
    """
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    if prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) or prctl(PR_SET_PDEATHSIG, END, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    prctl(PR_SET_NAME, name, 0, 0, 0)
    return woken


def running() -> int:
    """How much runs on this machine, in tasks: quick to read, and enough to know when to look closer."""
    try:
        fd = os.open("/proc/loadavg", os.O_RDONLY)
    except OSError:
        return 0
    try:
        return int(os.read(fd, 100).split()[3].partition(b"/")[2])
    except (OSError, ValueError, IndexError):
        return 0
    finally:
        os.close(fd)


def below(top: int, spare: Iterable[int] = ()) -> list[int]:
    """Everything that comes from a process, without those to spare and what comes from them."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            fd = os.open(f"/proc/{name}/stat", os.O_RDONLY)
        except OSError:  # gone
            continue
        try:
            stat = os.read(fd, 1024)
        except OSError:
            continue
        finally:
            os.close(fd)
        # The name in parentheses may contain anything, parentheses too; the parent is the second field after it.
        children.setdefault(int(stat[stat.rindex(b")") :].split(None, 3)[2]), []).append(int(name))
    found = [child for child in children.get(top, ()) if child not in spare]
    for process in found:
        found += children.get(process, ())
    return found


def kill(processes: list[int]) -> None:
    for process in processes:
        try:
            os.kill(process, signal.SIGKILL)
        except OSError:  # gone, or another user's
            continue


def signal_group(command: int, number: int) -> None:
    """All of a command that has not left its group, at once: nobody is born meanwhile."""
    try:
        try:
            os.waitid(os.P_PID, command, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:  # it was waited for: now its number may be a stranger's, but not while a group has it
            os.kill(command, 0)
            return
    except ProcessLookupError:
        pass
    except OSError:
        return
    try:
        os.killpg(command, number)
    except OSError:  # gone, or another user's
        return


def say(line: int, words: bytes) -> None:
    try:
        os.write(line, words)
    except OSError:  # nobody listens any more
        return


if __name__ == "__main__":
    main()
