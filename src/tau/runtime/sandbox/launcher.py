"""Sandbox launcher: the process that creates a sandbox, starts the supervisor in it, and cleans up afterwards.

    agent ── launcher ── supervisor ── watcher ── a command
              outside  │  inside

It is a separate process because the privileges that it drops cannot be regained. Everything inside has its own
namespaces and dies with the supervisor, which dies with the launcher, which dies with the agent or when the agent
closes its connection to the supervisor.

A list of mounts from policy.py defines what is readable and writable. Each level has one implementation:

    workspace  tau's own: the whole file system read-only, the mounts over it, and Landlock, which grants the planned
               read and write access and nothing else
    strict     bubblewrap: an empty file system that contains only the mounts and the system's folders

Both use the same system call filter (seccomp.py), and both end with the same check of all mounts from inside
(mounts.py), because the list was made in another process and names may have changed since. If any step fails, nothing
is started, and the launcher sends the reason on the connection: "refused" and a sentence.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import struct
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from typing import NamedTuple

from tau.runtime.machine.supervisor import END, HANDLED_SIGNALS, PR_SET_PDEATHSIG, adopt_orphans, prctl, say
from tau.runtime.sandbox import landlock, seccomp
from tau.runtime.sandbox.mounts import Mount, Refused, call, check_mounts, check_sources, mount_all, refusing
from tau.runtime.sandbox.placeholders import hold, release
from tau.runtime.sandbox.safe_open import Identity
from tau.runtime.sandbox.tree_removal import remove_tree

BWRAP = "/usr/bin/bwrap"  # never from PATH: a project could put another one there
LINE = 0
ERROR_TIMEOUT_S = 1.0  # seconds for the supervisor to end by itself
MAX_ARGUMENT_BYTES = 100_000  # characters; the kernel accepts 128 KiB in one argument

# Paths that any program may need to read. They contain no user data.
SYSTEM = tuple(
    """
    /usr /bin /sbin /lib /lib32 /lib64 /libx32 /etc /opt /sys /nix/store /gnu/store /run/current-system /snap
    /var/lib/dpkg /var/cache/fontconfig
    """.split()
)
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts")

_NEW_MOUNTS, _NEW_UTS, _NEW_IPC = 0x00020000, 0x04000000, 0x08000000
_NEW_USER, _NEW_PIDS, _NEW_NETWORK = 0x10000000, 0x20000000, 0x40000000
_SECCOMP, _FILTER, _DROP_BOUND, _NO_NEW_PRIVILEGES = 22, 2, 24, 38
_CAPABILITIES_VERSION = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)
_NAME = ctypes.create_string_buffer(b"tau-sandbox")


class Plan(NamedTuple):
    """The sandbox that policy.py has planned, serializable for the launcher."""

    level: str
    mounts: list[Mount]
    placeholders: list[str]  # targets of mounts that do not exist yet, see placeholders.py
    private: str  # a folder that is removed with the sandbox
    output: str  # a folder that is removed with the sandbox if it is empty
    words: list[str]  # command line of the supervisor

    def arguments(self) -> list[str]:
        """Serialize as arguments of a program."""
        text = json.dumps(self._asdict())
        return [text[at : at + MAX_ARGUMENT_BYTES] for at in range(0, len(text), MAX_ARGUMENT_BYTES)]

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> Plan:
        given = json.loads("".join(arguments))
        return cls(**{**given, "mounts": [_mount(*fields) for fields in given["mounts"]]})


def _mount(source: str, target: str, writable: bool, identity: list[int] | None) -> Mount:
    return Mount(source, target, writable, None if identity is None else Identity(*identity))


class Inside(NamedTuple):
    process: int
    errors_fd: int  # descriptor from which its error message is read


def main() -> None:
    agent = os.getppid()
    plan = Plan.parse(sys.argv[1:])
    for number in HANDLED_SIGNALS:
        signal.signal(number, lambda number, frame: None)
    signals = adopt_orphans(ctypes.addressof(_NAME))
    with ExitStack() as cleanup:  # runs callbacks in reverse order, even if one of them fails
        cleanup.callback(remove_tree, plan.private)
        cleanup.callback(_remove_if_empty, plan.output)
        try:
            plan = _with_placeholders(plan, cleanup)
            start = {"workspace": _start_own, "strict": _start_bubblewrap}[plan.level]
            inside = start(plan)
            _watch(inside.process, signals, agent)
            # Matters only if the supervisor has not sent "ready"; otherwise nothing reads it.
            say(LINE, b"refused " + os.read(inside.errors_fd, 2000).strip())
        except (Refused, OSError) as error:
            say(LINE, f"refused {_sentence(error)}".encode()[:2000])


def check_inside() -> None:
    """First program in a sandbox that bubblewrap has created: check the mounts, then exec the supervisor."""
    try:
        plan = Plan.parse(sys.argv[1:])
        for place in check_mounts(plan.mounts):
            os.close(place)
        os.execv(plan.words[0], plan.words)
    except (Refused, OSError) as error:
        printable = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in _sentence(error))
        os.write(2, printable.encode("utf-8", "backslashreplace"))
    finally:
        os._exit(127)


def python_words(function: str, arguments: Sequence[str]) -> list[str]:
    """Return a command line that calls a function of this module, isolated from environment and user settings."""
    root = os.path.abspath(__file__)
    for _ in __name__.split("."):  # up to the folder that contains the package
        root = os.path.dirname(root)
    start = f"import sys; sys.path.append(sys.argv.pop(1)); from {__name__} import {function}; {function}()"
    return [os.path.realpath(sys.executable), "-I", "-S", "-c", start, root, *arguments]


def _with_placeholders(plan: Plan, cleanup: ExitStack) -> Plan:
    """Create the missing placeholders; return the plan with the identities of all mounts."""
    known = {mount.target: mount.identity for mount in plan.mounts}
    for path in plan.placeholders:
        within = known[os.path.dirname(path)]
        assert within is not None
        held = hold(path, within)
        cleanup.callback(release, held)
        known[path] = held.identity
    return plan._replace(mounts=[mount._replace(identity=known[mount.target]) for mount in plan.mounts])


def _remove_if_empty(folder: str) -> None:
    with suppress(OSError):
        os.rmdir(folder)


def _sentence(error: Exception) -> str:
    return str(error) if isinstance(error, Refused) else f"{error.strerror}: {error.filename or ''}".rstrip(": ")  # type: ignore[attr-defined]


def _watch(inside: int, signals: int, agent: int) -> None:
    """Wait until the sandbox has ended; end it if the agent dies or closes the connection."""
    poll = select.poll()
    poll.register(LINE, 0)  # only to notice a hang-up: the supervisor reads from it
    poll.register(signals, select.POLLIN)
    while _lives(inside):
        for ready, _ in poll.poll():
            if ready == LINE or (END in os.read(signals, 512) and os.getppid() != agent):
                _end(inside)
                return


def _lives(child: int) -> bool:
    """True while the child runs. Also reaps orphans that we have adopted."""
    while True:
        try:
            dead, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if not dead:
            return True
        if dead == child:
            return False


def _end(inside: int) -> None:
    until = time.monotonic() + ERROR_TIMEOUT_S
    while _lives(inside) and time.monotonic() < until:
        time.sleep(0.005)
    with suppress(ProcessLookupError):
        os.kill(inside, signal.SIGKILL)
    with suppress(ChildProcessError):
        while True:
            os.wait()


# Strict: bubblewrap


def _start_bubblewrap(plan: Plan) -> Inside:
    if not os.access(BWRAP, os.X_OK):
        raise Refused(f"there is no {BWRAP}; install bubblewrap")
    try:
        program = seccomp.program()
    except seccomp.NoFilter as error:
        raise Refused(str(error)) from None
    check_sources(plan.mounts)
    fd = os.memfd_create("filter", 0)
    os.write(fd, program)
    os.lseek(fd, 0, os.SEEK_SET)
    errors_read, errors_write = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if not child:
        inside = python_words(check_inside.__name__, plan.arguments())
        _become([BWRAP, *bubblewrap_arguments(plan), "--seccomp", str(fd), "--", *inside], errors_write)
    os.close(fd)
    os.close(errors_write)
    return Inside(child, errors_read)


def _become(words: list[str], stderr: int) -> None:
    try:
        os.dup2(stderr, 2)
        os.execv(words[0], words)
    finally:
        os._exit(127)


def bubblewrap_arguments(plan: Plan) -> Iterable[str]:
    yield from ("--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--cap-drop", "ALL")
    for path in (*SYSTEM, *(path for path in ("/tmp",) if os.path.islink(path))):
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        else:
            yield from ("--ro-bind-try", path, path)
    yield from ("--proc", "/proc", "--dev", "/dev")
    for mount in plan.mounts:
        yield from ("--bind" if mount.writable else "--ro-bind", mount.source, mount.target)
    # The sysctls in /proc belong to root, and we may be root; bubblewrap leaves them writable then.
    yield from ("--remount-ro", "/proc", "--remount-ro", "/", "--chdir", "/")


# Workspace: tau's own implementation


def _start_own(plan: Plan) -> Inside:
    if not landlock.version():
        raise Refused("this kernel has no Landlock (Linux 5.13 or newer), or it is disabled")
    try:
        program = seccomp.program()
    except seccomp.NoFilter as error:
        raise Refused(str(error)) from None
    user, group = os.geteuid(), os.getegid()
    with refusing("user namespaces are not available"):
        call(_libc.unshare(_NEW_USER | _NEW_PIDS))
        _put("/proc/self/setgroups", "deny")
        _put("/proc/self/uid_map", f"{user} {user} 1")
        _put("/proc/self/gid_map", f"{group} {group} 1")
    errors_read, errors_write = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if not child:
        _become_supervisor(plan, program, errors_write)
    os.close(errors_write)
    return Inside(child, errors_read)


def _become_supervisor(plan: Plan, program: bytes, errors_write: int) -> None:
    """Set up the sandbox and exec the supervisor. Does not return.

    This is the first process of its PID namespace: when it ends, the kernel kills all others in it.
    """
    try:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        with refusing("namespaces are not available"):
            call(_libc.unshare(_NEW_MOUNTS | _NEW_NETWORK | _NEW_IPC | _NEW_UTS))
        mount_all(plan.mounts)
        places = list(zip(check_mounts(plan.mounts), plan.mounts, strict=True))
        _give_up_capabilities()
        with refusing("Landlock does not work"):
            readable = [place for place, mount in places if not mount.writable]
            writable = [place for place, mount in places if mount.writable]
            landlock.restrict([*SYSTEM, "/proc", *readable], [*writable, "/dev/shm"], DEVICES)
        with refusing("system calls cannot be filtered"):
            _filter(program)
        os.chdir("/")
        os.execv(plan.words[0], plan.words)
    except (Refused, OSError) as error:
        os.write(errors_write, _sentence(error).encode())
    finally:
        os._exit(127)


def _give_up_capabilities() -> None:
    """Drop all capabilities, including those that a program executed as root would regain."""
    number = 0
    while _libc.prctl(_DROP_BOUND, number, 0, 0, 0) == 0:
        number += 1
    header = struct.pack("Ii", _CAPABILITIES_VERSION, 0)
    call(_libc.capset(header, bytes(24)))


def _filter(program: bytes) -> None:
    buffer = ctypes.create_string_buffer(program, len(program))
    filter = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    call(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    call(_libc.prctl(_SECCOMP, _FILTER, filter, 0, 0))


def _put(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


if __name__ == "__main__":
    main()
