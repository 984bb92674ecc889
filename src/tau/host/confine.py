"""The process around a sandbox: makes it, starts the runner in it, and clears up behind it.

    agent ── this ── runner ── keeper ── a command
             outside │ inside

It is a process of its own because what it gives up cannot be had back. Whatever is
inside is in namespaces of its own and dies with the runner, which dies with this,
which dies with the agent or when the agent closes its line to the runner.

What is readable and writable is a list of mounts that sandbox.py made; there is
one way for each level to carry it out:

    workspace  our own: the whole file system read-only, the mounts over it, and
               Landlock, which grants what may be read and written and nothing else
    strict     bubblewrap: an empty file system, and in it nothing but the mounts

Both have the same filter of system calls (seccomp.py). When anything of it fails
nothing is started, and the line is told why: "refused", and a sentence.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import select
import signal
import stat
import struct
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from tau.host import landlock, seccomp
from tau.host.runner import END, HEARD, PR_SET_PDEATHSIG, adopt_orphans, prctl, say

BWRAP = "/usr/bin/bwrap"  # never from PATH: a project could put another one there
LINE = 0
PATIENCE = 1.0  # seconds for the runner to end by itself
PLACEHOLDER = 0o500  # the mode of a folder that is there to be mounted over

# What any program may need to read. There is nothing of a user's in it.
SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/sys"),
    *("/nix/store", "/gnu/store", "/run/current-system", "/snap", "/var/lib/dpkg", "/var/cache/fontconfig"),
)
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts")

_NEW_MOUNTS, _NEW_UTS, _NEW_IPC, _NEW_USER, _NEW_PIDS, _NEW_NETWORK = (
    *(0x00020000, 0x04000000, 0x08000000),
    *(0x10000000, 0x20000000, 0x40000000),
)
_READ_ONLY, _NO_SETUID, _NO_DEVICES, _NO_EXEC, _RECURSIVE, _PRIVATE = 1, 2, 4, 8, 0x4000, 1 << 18
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_CLONE, _AT_RECURSIVE, _AT_EMPTY_PATH, _MOVE_FROM_EMPTY_PATH, _AT_CWD = 1, 0x8000, 0x1000, 4, -100
_SECCOMP, _FILTER, _DROP_BOUND, _NO_NEW_PRIVILEGES = 22, 2, 24, 38
_CAPABILITIES_VERSION = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)
_NAME = ctypes.create_string_buffer(b"tau-sandbox")


class Mount(NamedTuple):
    """What is seen at a place. The order of a list of them matters: the later ones are over the earlier ones."""

    source: str
    target: str
    writable: bool


class Plan(NamedTuple):
    """What sandbox.py wants, as it travels."""

    level: str
    mounts: list[Mount]
    readable: list[str]
    writable: list[str]
    placeholders: list[str]  # folders that have to be there, to be mounted over
    private: str  # a folder that ends with the sandbox
    output: str  # another, if there is nothing in it
    words: list[str]  # the runner


class Inside(NamedTuple):
    process: int
    said: int  # what it has to say about its failure


class Refused(Exception):
    """The level cannot be kept to; why, as a sentence."""


def main() -> None:
    agent = os.getppid()
    given = json.loads(sys.argv[1])
    plan = Plan(**{**given, "mounts": [Mount(*mount) for mount in given["mounts"]]})
    for number in HEARD:
        signal.signal(number, lambda number, frame: None)
    signals = adopt_orphans(ctypes.addressof(_NAME))
    held: dict[str, int] = {}
    try:
        held = {path: _hold(path) for path in plan.placeholders}
        start = {"workspace": _start_own, "strict": _start_bubblewrap}[plan.level]
        inside = start(plan)
        _watch(inside.process, signals, agent)
        # Of interest only if the runner has not said that it is ready; else nobody listens.
        say(LINE, b"refused " + os.read(inside.said, 2000).strip())
    except (Refused, OSError) as error:
        say(LINE, f"refused {_sentence(error)}".encode()[:2000])
    finally:
        _clear(plan.private)
        with suppress(OSError):
            os.rmdir(plan.output)
        for path, fd in held.items():
            _let_go(path, fd)


def _sentence(error: Exception) -> str:
    return str(error) if isinstance(error, Refused) else f"{error.strerror}: {error.filename or ''}".rstrip(": ")  # type: ignore[attr-defined]


def _watch(inside: int, signals: int, agent: int) -> None:
    """Until the sandbox has ended, or has to."""
    poll = select.poll()
    poll.register(LINE, 0)  # only whether it has ended: the runner is the one who reads
    poll.register(signals, select.POLLIN)
    while _lives(inside):
        for ready, _ in poll.poll():
            if ready == LINE or (END in os.read(signals, 512) and os.getppid() != agent):
                _end(inside)
                return


def _lives(child: int) -> bool:
    """Also takes in the dead that were left to us."""
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
    until = time.monotonic() + PATIENCE
    while _lives(inside) and time.monotonic() < until:
        time.sleep(0.005)
    with suppress(ProcessLookupError):
        os.kill(inside, signal.SIGKILL)
    with suppress(ChildProcessError):
        while True:
            os.wait()


def _clear(private: str) -> None:
    import shutil

    shutil.rmtree(private, ignore_errors=True)


# Folders that are not there, so that nobody inside can make them. Several sandboxes may share one.


def _hold(path: str) -> int:
    """There is a folder at this path; it stays as long as we have the descriptor."""
    while True:
        with suppress(FileExistsError):
            os.mkdir(path, PLACEHOLDER)
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        fcntl.flock(fd, fcntl.LOCK_SH)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(fd)):
                return fd
        os.close(fd)  # somebody has just removed it


def is_placeholder(path: str) -> bool:
    """Whether this is a folder that a sandbox has put there, be it one that nobody could clear up behind."""
    try:
        status = os.lstat(path)
        return stat.S_ISDIR(status.st_mode) and stat.S_IMODE(status.st_mode) == PLACEHOLDER and not os.listdir(path)
    except OSError:
        return False


def _let_go(path: str, fd: int) -> None:
    with suppress(OSError):
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # else another sandbox needs it
        if is_placeholder(path):
            os.rmdir(path)
    os.close(fd)


# Strict: bubblewrap


def _start_bubblewrap(plan: Plan) -> Inside:
    if not os.access(BWRAP, os.X_OK):
        raise Refused(f"there is no {BWRAP}; install bubblewrap")
    try:
        program = seccomp.program()
    except seccomp.NoFilter as error:
        raise Refused(str(error)) from None
    fd = os.memfd_create("filter", 0)
    os.write(fd, program)
    os.lseek(fd, 0, os.SEEK_SET)
    said, says = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if not child:
        _become([BWRAP, *_arguments(plan), "--seccomp", str(fd), "--", *plan.words], says)
    os.close(fd)
    os.close(says)
    return Inside(child, said)


def _become(words: list[str], stderr: int) -> None:
    try:
        os.dup2(stderr, 2)
        os.execv(words[0], words)
    finally:
        os._exit(127)


def _arguments(plan: Plan) -> Iterable[str]:
    yield from ("--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--cap-drop", "ALL")
    for path in SYSTEM:
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        else:
            yield from ("--ro-bind-try", path, path)
    yield from ("--proc", "/proc", "--dev", "/dev")
    for mount in plan.mounts:
        yield from ("--bind" if mount.writable else "--ro-bind", mount.source, mount.target)
    # The sysctls in /proc belong to root, and root may be who we are; bubblewrap leaves them writable then.
    yield from ("--remount-ro", "/proc", "--remount-ro", "/", "--chdir", "/")


# Workspace: our own


def _start_own(plan: Plan) -> Inside:
    if not landlock.version():
        raise Refused("this kernel has no Landlock, or has it switched off (it is in Linux since 5.13)")
    try:
        program = seccomp.program()
    except seccomp.NoFilter as error:
        raise Refused(str(error)) from None
    user, group = os.geteuid(), os.getegid()
    with _refusing("user namespaces are not to be had here"):
        _call(_libc.unshare(_NEW_USER | _NEW_PIDS))
        _put("/proc/self/setgroups", "deny")
        _put("/proc/self/uid_map", f"{user} {user} 1")
        _put("/proc/self/gid_map", f"{group} {group} 1")
    said, says = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if not child:
        _become_runner(plan, program, says)
    os.close(says)
    return Inside(child, said)


def _become_runner(plan: Plan, program: bytes, says: int) -> None:
    """The first process of its namespace: when it ends the kernel ends all the others."""
    try:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        with _refusing("namespaces are not to be had here"):
            _call(_libc.unshare(_NEW_MOUNTS | _NEW_NETWORK | _NEW_IPC | _NEW_UTS))
        _mount_all(plan.mounts)
        _give_up_capabilities()
        with _refusing("Landlock does not work"):
            landlock.restrict([*SYSTEM, "/proc", *plan.readable], [*plan.writable, "/dev/shm"], DEVICES)
        with _refusing("system calls cannot be filtered"):
            _filter(program)
        os.chdir("/")
        os.execv(plan.words[0], plan.words)
    except (Refused, OSError) as error:
        os.write(says, _sentence(error).encode())
    finally:
        os._exit(127)


def _mount_all(mounts: list[Mount]) -> None:
    with _refusing("mounting is not allowed here"):
        _call(_libc.mount(None, b"/", None, _RECURSIVE | _PRIVATE, None))
        trees = [(_tree(mount), mount.target) for mount in mounts]  # before what they are taken from is read-only
        _set(_AT_CWD, "/", _READ_ONLY | _NO_SETUID, _AT_RECURSIVE)
        plain = _NO_SETUID | _NO_DEVICES | _NO_EXEC
        # Read-only, because the sysctls in it belong to root, and root may be who we are.
        _call(_libc.mount(b"proc", b"/proc", b"proc", plain | _READ_ONLY, None))
        _call(_libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", plain, b"mode=1777,size=256m"))
        with suppress(OSError):  # then there are no terminals, which most commands do not need
            _call(_libc.mount(b"devpts", b"/dev/pts", b"devpts", _NO_SETUID | _NO_EXEC, b"newinstance,ptmxmode=0666"))
    for tree, target in trees:
        with _refusing(f"{target} cannot be mounted"):
            from_here = (ctypes.c_int(tree), b"", ctypes.c_int(_AT_CWD), os.fsencode(target))
            _call(_libc.syscall(_MOVE_MOUNT, *from_here, ctypes.c_uint(_MOVE_FROM_EMPTY_PATH)))
        os.close(tree)


def _tree(mount: Mount) -> int:
    """A copy of what is mounted there, which is nowhere yet."""
    flags = _CLONE | _AT_RECURSIVE | os.O_CLOEXEC
    tree = _call(_libc.syscall(_OPEN_TREE, ctypes.c_int(_AT_CWD), os.fsencode(mount.source), ctypes.c_uint(flags)))
    attributes = _NO_SETUID | _NO_DEVICES | (0 if mount.writable else _READ_ONLY)
    if not stat.S_ISCHR(os.stat(mount.source).st_mode):  # /dev/null, which stands for an empty file
        _set(tree, "", attributes, _AT_RECURSIVE | _AT_EMPTY_PATH)
    return tree


def _set(place: int, path: str, attributes: int, how: int) -> None:
    wanted = struct.pack("QQQQ", attributes, 0, 0, 0)
    where = (ctypes.c_int(place), os.fsencode(path), ctypes.c_uint(how))
    _call(_libc.syscall(_MOUNT_SETATTR, *where, wanted, ctypes.c_size_t(len(wanted))))


def _give_up_capabilities() -> None:
    """All of them, also those that a program would get back by being executed as root."""
    number = 0
    while _libc.prctl(_DROP_BOUND, number, 0, 0, 0) == 0:
        number += 1
    header = struct.pack("Ii", _CAPABILITIES_VERSION, 0)
    _call(_libc.capset(header, bytes(24)))


def _filter(program: bytes) -> None:
    kept = ctypes.create_string_buffer(program, len(program))
    filter = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(kept))
    _call(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _call(_libc.prctl(_SECCOMP, _FILTER, filter, 0, 0))


def _put(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _call(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


class _refusing:
    """Trouble with the kernel, with what it means."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, at: Any) -> None:
        if isinstance(error, OSError):
            raise Refused(f"{self._what}: {error.strerror}") from None


if __name__ == "__main__":
    main()
