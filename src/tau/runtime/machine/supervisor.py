"""The supervisor: a separate process that starts commands and kills everything they started.

It is run by its path, on Linux only, and must stay small, because every per-command watcher process is a fork of it.
So it imports nothing of tau; supervisor_client.py is its counterpart in the agent.

    agent ── supervisor ── watcher ── the command and all its descendants
                        └─ watcher ── the next command ...

Each command has a watcher process, which is a subreaper: every descendant of the command
stays below the watcher, whatever its name, session or number of forks. A watcher takes no other command while any
descendant exists, and kills all of them when its channel to the agent is closed or when the supervisor ends. Both
happen automatically when the agent dies, however it dies.

The agent sends one message per command with these descriptors: the watcher's channel to the agent, a file with the
request, stdout, stderr, the folder to run in if the message contains AT, and stdin if it contains INPUT. The folder is
passed as a descriptor because a path such as /proc/self/cwd names another folder in each process. Later the agent may
send TERMINATE on the watcher's channel: the processes of the command's group receive SIGTERM. A watcher sends

    taken        from here on the command may have run
    exit N       it exited; N is the negative signal number if a signal killed it
    cwd N, exec N, fork N
                 it could not be started; N is the errno
    limit N      it had more than N processes; it is being killed with all of them
    gone         none of its processes is left; may follow in the same message

and then closes its channel. A channel that is closed before the first message means that the command was never
started.
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

CONFINED = "confined"  # argument: we run in a sandbox, see sandbox/launcher.py

END = signal.SIGUSR1  # sent by the kernel when the parent dies
# A command that searches for processes to kill must not end us with a signal that can be caught. These signals are
# handled and not ignored, because exec resets handled signals to their default and keeps ignored ones ignored.
HANDLED_SIGNALS = (signal.SIGCHLD, END, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE)

KILL_INTERVAL_MS = 5  # milliseconds between two rounds of killing
MAX_KILL_ROUNDS = (
    2000  # a process that survives them cannot be killed: it belongs to another user, or hangs in the kernel
)

MAX_PROCESSES = 2000  # processes of one command at a time; with more it is killed, before other programs cannot fork
COUNT_INTERVAL_MS = 100  # milliseconds between two counts of processes
MAX_FILE_BYTES = 16 << 30  # bytes; a soft limit against accidents: a command that needs more runs `ulimit -f unlimited`

prctl = ctypes.CDLL(None, use_errno=True).prctl
prctl.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)

# Process names for process lists, as addresses of C strings.
_NAMES = [ctypes.create_string_buffer(name) for name in (b"tau-supervisor", b"tau-watcher")]
SUPERVISOR_NAME, WATCHER_NAME = map(ctypes.addressof, _NAMES)

# Messages. START has 4 descriptors, and the request names the folder; the words AT and INPUT after it add one each.
START, AT, INPUT = b"start", b" at", b" input"
MAX_DESCRIPTORS = 6
TERMINATE = b"terminate"

Fds = list[int]
Spec = tuple[bytes, list[bytes], dict[bytes, bytes]]


def main() -> None:
    agent = os.getppid()
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_FILE_BYTES if most < 0 else min(MAX_FILE_BYTES, most), most))
    gc.disable()
    gc.freeze()  # a collection would write to, and so copy, the memory that the watchers share
    serve(socket.socket(fileno=0), agent, confined=CONFINED in sys.argv[1:])


def serve(line: socket.socket, agent: int, *, confined: bool = False) -> None:
    """Start a watcher for each message, until the connection is closed."""
    for number in HANDLED_SIGNALS:
        signal.signal(number, lambda number, frame: None)
    signals = adopt_orphans(SUPERVISOR_NAME)
    if confined:
        # Our parent may be outside the sandbox, where we cannot see whether it lives. And no command may write to our
        # memory.
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
        say(line.fileno(), b"ready")
    watchers: dict[int, socket.socket] = {}
    free: list[int] = []
    poll = select.poll()
    poll.register(line, select.POLLIN)
    poll.register(signals, select.POLLIN)
    while True:
        # Handle new commands last, so that a watcher that has just become idle can take one.
        for ready, _ in sorted(poll.poll(), key=lambda one: one[0] == line.fileno()):
            if ready == signals:
                received = os.read(signals, 512)
                # The kernel sends END also when only the thread that started us has ended.
                if END in received and os.getppid() != agent:
                    return
            elif ready == line.fileno():
                message, fds, _, _ = socket.recv_fds(line, 32, MAX_DESCRIPTORS)
                if not message:
                    return
                for fd in fds:
                    os.set_inheritable(fd, False)
                if is_complete(message, fds):  # else there were too many open files; closing them notifies the agent
                    start(message, fds, watchers, free, poll)
                for fd in fds:
                    os.close(fd)
            else:
                release(ready, watchers, free, poll)
        if not reap(watchers):
            kill(below(os.getpid(), except_children=watchers))


def start(message: bytes, fds: Fds, watchers: dict[int, socket.socket], free: list[int], poll: select.poll) -> None:
    """Pass a command to an idle watcher, or fork a new one."""
    while free:
        try:
            socket.send_fds(watchers[free.pop()], [message], fds)
            return
        except (KeyError, OSError):  # the watcher was killed
            continue
    # The request is read here and not in the watcher, for which every page it writes to is copied.
    supervisor, spec, tasks_before = os.getpid(), read(fds[1]), running()
    try:
        our_end, their_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        watcher = os.fork()
    except OSError as error:
        say(fds[0], b"fork %d" % (error.errno or 0))
        return
    if watcher:
        their_end.close()
        watchers[watcher] = our_end
        poll.register(our_end, select.POLLIN)
        return
    try:
        for other in (our_end, *watchers.values()):
            other.close()
        keep(their_end, message, fds, spec, tasks_before, supervisor)
    finally:
        os._exit(1)


def is_complete(message: bytes, fds: Fds) -> bool:
    """False if the kernel could not deliver all descriptors: the limit on open files was reached."""
    return len(fds) == 4 + (AT in message) + (INPUT in message)


def release(ready: int, watchers: dict[int, socket.socket], free: list[int], poll: select.poll) -> None:
    """Handle a watcher that has finished. One is kept for the next command: a fork costs more than most commands."""
    for watcher, line in watchers.items():
        if line.fileno() == ready:
            if os.read(ready, 16) and not free:
                free.append(watcher)
            else:
                poll.unregister(ready)
                line.close()
            return
    poll.unregister(ready)


def reap(watchers: dict[int, socket.socket]) -> bool:
    """Reap dead children. Return False if one was not a watcher that exited normally: then there are orphans."""
    only_watchers = True
    while True:
        try:
            child, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if not child:
            return only_watchers
        if child not in watchers or status:
            only_watchers = False
        watchers.pop(child, None)


def read(request: int) -> Spec:
    """Parse a request: the folder, the argument vector and the environment of a command."""
    cwd, count, *rest = os.pread(request, os.fstat(request).st_size, 0).split(b"\0")
    end = int(count)
    return cwd, rest[:end], dict(item.split(b"=", 1) for item in rest[end:])


def keep(
    supervisor_line: socket.socket, message: bytes, fds: Fds, spec: Spec, tasks_before: int, supervisor: int
) -> None:
    """Main loop of a watcher: one command after the other. Does not return."""
    os.dup2(1, 0)  # /dev/null
    os.dup2(1, 2)
    signals = adopt_orphans(WATCHER_NAME)
    poll = select.poll()
    poll.register(supervisor_line, select.POLLIN)
    poll.register(signals, select.POLLIN)
    while os.getppid() == supervisor:
        last = attend(message, fds, spec, tasks_before, signals)
        os.chdir("/")
        say(
            supervisor_line.fileno(), b"free"
        )  # first: after the last message the agent may send another command at once
        if last:
            say(fds[0], last)
        os.close(fds[0])
        message = b""
        while not message and os.getppid() == supervisor:
            for ready, _ in poll.poll():
                if ready == signals:
                    os.read(signals, 512)
                    continue
                message, fds, _, _ = socket.recv_fds(supervisor_line, 32, MAX_DESCRIPTORS)
                if not is_complete(message, fds):
                    os._exit(0)
                for fd in fds:
                    os.set_inheritable(fd, False)
                spec, tasks_before = read(fds[1]), running()
    os._exit(0)


def attend(message: bytes, fds: Fds, spec: Spec, tasks_before: int, signals: int) -> bytes:
    """Start a command and wait until all its processes have ended. Return the last message to send."""
    line, request, stdout, stderr, *rest = fds
    stdin = rest[-1] if INPUT in message else 0
    poll = select.poll()
    poll.register(line, select.POLLIN)
    stage, command, last = b"cwd", 0, b""
    if not poll.poll(0):  # else the agent has closed the channel: the command is not wanted any more
        say(line, b"taken")
        try:
            if AT in message:
                os.fchdir(rest[0])
            else:
                os.chdir(spec[0])
            stage = b"exec"
            command = spawn(spec, stdin, stdout, stderr)
        except OSError as error:
            last = b"%b %d" % (stage, error.errno or 0)
    for fd in (request, stdout, stderr, *rest):
        os.close(fd)
    if command:
        poll.register(signals, select.POLLIN)
        last = watch(command, line, tasks_before, signals, poll)
    return last


def watch(command: int, line: int, tasks_before: int, signals: int, poll: select.poll) -> bytes:
    """Wait until no process of the command is left. `tasks_before` is the number of tasks that ran before.

    Returns the last message to send; it is empty if the supervisor has ended.
    """
    rounds, quiet = 0, False
    while not (last := reap_for(command, line)):
        if rounds == MAX_KILL_ROUNDS:
            os._exit(1)
        if rounds == 1:
            # At once, and without looking at all processes: when an agent dies, many watchers do this together.
            signal_group(command, signal.SIGKILL)
            rounds = 2
        elif rounds:
            rounds += 1
            kill(below(os.getpid()))
        elif quiet and (now := running()) > tasks_before + MAX_PROCESSES:
            # Counting processes that keep forking would never end, so stop them first.
            signal_group(command, signal.SIGSTOP)
            if len(below(os.getpid())) > MAX_PROCESSES:
                say(line, b"limit %d" % MAX_PROCESSES)
                signal_group(command, signal.SIGKILL)
                rounds = 1
            else:
                signal_group(command, signal.SIGCONT)
                tasks_before = now
        events = poll.poll(KILL_INTERVAL_MS if rounds else COUNT_INTERVAL_MS)
        quiet = not events
        for ready, _ in events:
            if ready != signals:
                if received(line) == TERMINATE:
                    signal_group(command, signal.SIGTERM)
                else:  # the agent has closed it
                    poll.unregister(ready)
                    rounds = rounds or 1
            elif END in os.read(signals, 512):
                rounds = rounds or 1
                line = -1  # send nothing more: the agent must not take this for the command's own exit
    return last if line >= 0 else b""


def reap_for(command: int, line: int) -> bytes:
    """Reap children and report the command's exit. If no process is left, return the last message to send."""
    messages: list[bytes] = []
    while True:
        try:
            child, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return b" ".join([*messages, b"gone"])
        if child == command:
            messages.append(b"exit %d" % os.waitstatus_to_exitcode(status))
        if not child:
            break
    if messages:
        say(line, messages[0])
    return b""


def spawn(spec: Spec, stdin: int, stdout: int, stderr: int) -> int:
    """Start the command in our current folder. It inherits these descriptors and no others.

    After a fork the kernel would copy every page that we write to; posix_spawn has nothing to copy.
    """
    _, words, environment = spec
    path = environment.get(b"PATH", os.fsencode(os.defpath))
    failure = OSError(errno.ENOENT, "not on the path")
    for place in [b""] if b"/" in words[0] else path.split(b":"):
        try:
            return os.posix_spawn(
                os.path.join(place, words[0]),
                words,
                environment,
                file_actions=[(os.POSIX_SPAWN_DUP2, fd, at) for at, fd in enumerate((stdin, stdout, stderr))],
                setsid=True,
            )
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as error:  # another folder of PATH may have an executable one
            failure = error
    raise failure


def adopt_orphans(name: int) -> int:
    """Become a subreaper and request END when our parent dies. Return a descriptor on which signals are read.

    Signal handlers are not set here, because watchers inherit those of the supervisor: each page that a watcher
    writes to is copied, and there is a watcher for every command.
    """
    read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    if prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) or prctl(PR_SET_PDEATHSIG, END, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    prctl(PR_SET_NAME, name, 0, 0, 0)
    return read_end


def running() -> int:
    """Return the number of tasks on this machine: cheap to read, and enough to know when to count processes."""
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


def below(top: int, except_children: Iterable[int] = ()) -> list[int]:
    """Return all descendants of a process, without the children in `except_children` and their descendants."""
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
        # The name in parentheses may contain anything, even parentheses; the parent is the second field after it.
        children.setdefault(int(stat[stat.rindex(b")") :].split(None, 3)[2]), []).append(int(name))
    found = [child for child in children.get(top, ()) if child not in except_children]
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
    """Signal all processes of a command that have not left its group; atomic, so no fork can escape it."""
    try:
        try:
            os.waitid(os.P_PID, command, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        # The command was reaped. If its PID exists again, it is another process's, and the group is gone: the kernel
        # does not reuse a PID while it is the ID of a group.
        except ChildProcessError:
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


def received(line: int) -> bytes:
    try:
        return os.read(line, 32)
    except OSError:  # the other end is closed
        return b""


def say(line: int, words: bytes) -> None:
    try:
        os.write(line, words)
    except OSError:  # the other end is closed
        return


if __name__ == "__main__":
    main()
