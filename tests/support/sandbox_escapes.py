"""Ways out of a sandbox, each tried by commands of the real program.

An escape returns what it got away with, an empty list if nothing. Without a sandbox
each gets away with something (but for "outlive", which the runner sees to anyway):
so a check that sees nothing is known to be able to see.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import secrets
import shlex
import shutil
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from long.witness import Heart
from support.rpc_process import WITHIN, Agent, surroundings

LEVELS = ("workspace", "strict")
LIMIT = 2.0  # seconds after which nothing is alive
PYTHON = os.path.realpath(sys.executable)  # which tau can run in its sandbox
SECRET = "the-secret-of-the-user"
PWNED = "pwned"
OF_THE_KERNEL = ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/kernel/uevent_helper", "/etc/passwd")


def missing(level: str) -> str | None:
    """Why this level cannot be tried on this machine."""
    if sys.platform != "linux":
        return "the sandbox needs Linux"
    if level == "strict" and not os.access("/usr/bin/bwrap", os.X_OK):
        return "NO SANDBOX TESTED: bubblewrap is not installed"
    tried = subprocess.run(["unshare", "-Ur", "true"], capture_output=True)
    if tried.returncode:
        return "NO SANDBOX TESTED: this machine gives no user namespaces"
    import ctypes

    if level == "workspace" and ctypes.CDLL(None).syscall(444, None, 0, 1) < 1:
        return "NO SANDBOX TESTED: this kernel has no Landlock"
    return None


class Place:
    """A user with secrets, a project, and an agent that works on it, at a level or without a sandbox."""

    def __init__(self, folder: Path, level: str | None) -> None:
        self.folder, self.tree, self.home, self.outside = folder, folder / "work", folder / "home", folder / "outside"
        for path in (self.tree, self.home / ".ssh", self.outside):
            path.mkdir(parents=True, exist_ok=True)
        self.private = [self.home / ".ssh" / "id_rsa", self.outside / "secret"]
        for path in self.private:
            path.write_text(SECRET)
        self.repository("")
        self.mark = f"TAU_MARK={secrets.token_hex(8)}"
        name, _, value = self.mark.partition("=")
        args = ["--sandbox", level] if level else []
        self.agent = Agent(folder, args=args, env={name: value, "MY_API_KEY": SECRET})
        self.level = level

    def repository(self, name: str) -> None:
        git = self.tree / name / ".git"
        (git / "hooks").mkdir(parents=True, exist_ok=True)
        (git / "config").write_text("[core]\n\tbare = false\n")
        (git / "HEAD").write_text("ref: refs/heads/main\n")

    def run(self, command: str) -> str:
        """What a command says, also if it fails."""
        return str(self.agent.get("bash", command=command)["output"])

    def python(self, code: str) -> str:
        return self.run(f"{shlex.quote(PYTHON)} -I -c {shlex.quote(code)}")

    def commands(self) -> set[int]:
        """What a command has started, and is alive."""
        found = set()
        for name in os.listdir("/proc"):
            if name.isdecimal() and int(name) != self.agent.pid:
                with suppress(OSError):
                    if self.mark.encode() in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                        found.add(int(name))
        return found

    def left(self) -> set[int]:
        """Seconds in which the machine had no time for anybody do not count."""
        began = time.monotonic()
        with Heart() as heart:
            while (alive := self.commands()) and time.monotonic() - heart.lost(began) < began + LIMIT:
                time.sleep(0.01)
        return alive


@contextmanager
def place(folder: Path, level: str | None) -> Iterator[Place]:
    made = Place(folder, level)
    with made.agent:
        yield made


def write_outside(place: Place) -> list[str]:
    """What belongs to the kernel is only opened: to write to it could do harm where it is allowed."""
    name = f"tau-escape-{secrets.token_hex(4)}"
    targets = [place.outside / name, place.home / name, Path("/tmp", name), Path("/var/tmp", name)]
    victim = place.outside / "secret"
    before = victim.stat()
    place.run("; ".join(f"echo {PWNED} > {target}" for target in targets))
    place.run(
        f"chmod 777 {victim}; truncate -s 0 {victim}; touch -d @1 {victim}; rm -f {victim}; mkdir {place.outside}/d"
    )
    place.run(f"cd {place.tree} && touch inside && mv inside {place.outside}/moved; echo {PWNED} > ../beside")
    said = place.run("".join(f": >> {path} && echo GOT {path}\n" for path in OF_THE_KERNEL))
    found = _got(said) + [
        str(path)
        for path in (*targets, place.outside / "d", place.outside / "moved", place.folder / "beside")
        if path.exists()
    ]
    for path in targets:
        path.unlink(missing_ok=True)
    after = victim.stat() if victim.exists() else None
    if after is None or (after.st_mode, after.st_size, after.st_mtime) != (
        before.st_mode,
        before.st_size,
        before.st_mtime,
    ):
        found.append("changed")
    return found


def read_denied(place: Place) -> list[str]:
    agent = place.agent.pid
    found = []
    for path in place.private:
        for name in (path, f"/proc/self/root{path}", f"/proc/{agent}/root{path}", f"/proc/1/root{path}"):
            if SECRET in place.run(f"cat {name}; grep -r . {name}; head -c 100 {name}"):
                found.append(str(name))
    if place.private[0].name in place.run(f"ls -R {place.home}; find {place.home}"):
        found.append("the names in the home folder")
    if SECRET in place.run(f"cat /proc/{agent}/environ; env"):
        found.append("the environment")
    return found


def read_by_link(place: Place) -> list[str]:
    found = []
    for number, path in enumerate(place.private):
        made = place.run(
            f"cd {place.tree}; ln -s {path} l{number}; ln -s {path.parent} d{number}; ln -s / root{number}"
        )
        said = place.run(
            f"cd {place.tree}; cat l{number} d{number}/{path.name} root{number}{path} ../{path.parent.name}/{path.name}"
        )
        if SECRET in made + said:
            found.append(str(path))
    place.run(f"cd {place.tree}; echo {PWNED} > d1/by-link; rm -f l? d? root?")
    return found + [str(path) for path in [place.outside / "by-link"] if path.exists()]


def take_inside(place: Place) -> list[str]:
    """Hard links and renames, of files and of the folder that holds the working folder."""
    secret = place.outside / "secret"
    said = place.run(f"cd {place.tree}; ln {secret} hard; cat hard; mv {secret} taken; cat taken; mv -f taken {secret}")
    found = ["the content"] if SECRET in said else []
    moved = place.folder.with_name(f"{place.folder.name}-moved")
    pairs = [(str(place.folder), str(moved)), (str(place.tree), str(place.outside / "w"))]
    code = f"""
import os
for old, new in {pairs!r}:
    try:
        os.rename(old, new)
        os.rename(new, old)
        print("renamed")
    except OSError as error:
        print(error)
"""
    if "renamed" in place.python(code):
        found.append("renamed")
    # And what the agent takes for its working folder is still the real one.
    place.run(f"mkdir -p {place.tree} && echo here > {place.tree}/still")
    if not (place.tree / "still").exists():
        found.append("the working folder is another one")
    if not secret.exists():
        secret.write_text(SECRET)
        found.append("taken away")
    return found


CONNECT = """
import socket
def attempt(name, work):
    try:
        work()
        print("GOT", name)
    except OSError as error:
        print(name, error)
"""


def connect(place: Place) -> list[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        said = place.python(
            f"{CONNECT}\n"
            f"attempt('loopback', lambda: socket.create_connection(('127.0.0.1', {port}), 5))\n"
            "attempt('listen', lambda: socket.create_server(('127.0.0.1', 0)))\n"
            "attempt('any', lambda: socket.create_server(('0.0.0.0', 0)))\n"
        )
        said += place.run(f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo GOT bash")
        server.settimeout(0.2)
        with suppress(TimeoutError):
            server.accept()[0].close()
            said += "GOT accepted\n"
    return _got(said)


def datagrams(place: Place) -> list[str]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        address = server.getsockname()
        said = place.python(
            f"{CONNECT}\n"
            f"attempt('udp', lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', {address!r}))\n"
            "attempt('udp6', lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))\n"
            "attempt('raw', lambda: socket.socket(type=socket.SOCK_RAW, proto=1))\n"
            "attempt('netlink', lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))\n"
            "attempt('packet', lambda: socket.socket(17, socket.SOCK_RAW))\n"
            "attempt('vsock', lambda: socket.socket(40, socket.SOCK_STREAM))\n"
            "attempt('alg', lambda: socket.socket(38, socket.SOCK_SEQPACKET))\n"
            "for family in range(1, 46):\n"
            "    for kind in (1, 2, 3, 5):\n"
            "        attempt(f'family {family} kind {kind}', lambda: socket.socket(family, kind))\n"
        )
        server.settimeout(0.2)
        with suppress(TimeoutError):
            server.recv(10)
            said += "GOT received\n"
    return _got(said)


# Processes that a command shares its sandbox with: what is not its own cannot be read or written, and holds no secret.
AROUND = f"""
import os
for pid in filter(str.isdecimal, os.listdir("/proc")):
    try:
        if {SECRET!r}.encode() in open(f"/proc/{{pid}}/environ", "rb").read():
            print("GOT the environment of", pid)
    except OSError:
        pass
    name = open(f"/proc/{{pid}}/comm").read().strip()
    if name in ("tau-supervisor", "tau-watcher"):
        # Numbers of descriptors can be listed by root; what they are of cannot be seen or opened.
        folder = f"/proc/{{pid}}/fd"
        fds = [f"fd/{{fd}}" for fd in os.listdir(folder)] if os.access(folder, os.R_OK) else []
        for file in ("mem", "environ", "auxv", "syscall", "root", "cwd", "exe", *fds):
            try:
                path = f"/proc/{{pid}}/{{file}}"
                if file in ("mem", "environ", "auxv", "syscall"):
                    os.read(os.open(path, os.O_RDONLY), file == "syscall")
                else:
                    os.stat(path)
                print("GOT", file, "of", name)
            except OSError:
                pass
"""


def other_processes(place: Place) -> list[str]:
    with subprocess.Popen(["sleep", "60"], env={"HIDDEN": SECRET, "PATH": os.environ["PATH"]}) as victim:
        try:
            said = place.python(
                "import ctypes, os\n"
                f"for pid in ({victim.pid}, {place.agent.pid}):\n"
                "    for name in ('environ', 'cmdline', 'maps', 'cwd/x'):\n"
                "        try: print('GOT', name, open(f'/proc/{pid}/{name}', 'rb').read(4000))\n"
                "        except OSError as error: print(error)\n"
                "    for what in (lambda: os.kill(pid, 0), lambda: os.pidfd_open(pid)):\n"
                "        try: what(); print('GOT signal')\n"
                "        except OSError as error: print(error)\n"
                "libc = ctypes.CDLL(None, use_errno=True)\n"
                f"if not libc.ptrace(16, {victim.pid}, 0, 0): print('GOT ptrace')\n"
            )
            said += place.python(AROUND)
            said += "GOT seen\n" if "sleep 60" in place.run("ps axww -o args | grep -v grep") else ""
            place.run(f"kill -9 {victim.pid}")
            with suppress(subprocess.TimeoutExpired):
                victim.wait(0.2)
                said += "GOT killed\n"
        finally:
            victim.kill()
    return _got(said)


DAEMON = "import os, time; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); time.sleep(300)"
HIDING = {
    "setsid": "setsid sleep 300 & echo ready; sleep 300",
    "double fork": f"{shlex.join([PYTHON, '-c', DAEMON])}; echo ready; sleep 300",
    "nohup, ignoring signals": "trap '' TERM INT HUP; nohup sleep 300 >/dev/null 2>&1 & echo ready; sleep 300",
    "killing its keeper": f"{shlex.join([PYTHON, '-c', DAEMON])}; setsid sleep 300 & kill -9 $PPID; sleep 300",
    # Only where it can hit nobody else.
    "killing all it can": "setsid sleep 300 & grep -qE 'tau-supervisor|bwrap' /proc/1/comm && kill -9 -1; sleep 300",
}


def outlive(place: Place) -> list[str]:
    found = []
    for name, command in HIDING.items():
        id = place.agent.send("bash", command=command)
        until = time.monotonic() + WITHIN
        while not place.commands() and not place.agent.has_response(id) and time.monotonic() < until:
            time.sleep(0.01)
        place.agent.ask("abort_bash")
        place.agent.response(id)
        if place.left():
            found.append(name)
    return found


SYSCALLS = """
import ctypes, errno, os, platform
libc = ctypes.CDLL(None, use_errno=True)
arm = platform.machine() == "aarch64"
# With these arguments each fails where it is allowed, too, but in another way, so that nothing is done to the machine.
calls = {
    "unshare user": (97 if arm else 272, 0x10000000), "unshare mount": (97 if arm else 272, 0x20000),
    "mount": (40 if arm else 165, 0, 0, 0, 0, 0), "umount": (39 if arm else 166, 0, 0),
    "pivot_root": (41 if arm else 155, 0, 0), "chroot": (51 if arm else 161, 0), "setns": (268 if arm else 308, -1, 0),
    "clone user": (220 if arm else 56, 0x10000000 | 17, 0, 0, 0, 0), "clone3": (435, 0, 0), "io_uring": (425, 0, 0),
    "bpf": (280 if arm else 321, 0, 0, 0), "keyctl": (219 if arm else 250, 0, -3, 0),
    "add_key": (217 if arm else 248, 0, 0, 0, 0, 0), "ptrace": (117 if arm else 101, 16, 0, 0, 0),
    "userfaultfd": (282 if arm else 323, 0xFFFF), "perf": (241 if arm else 298, 0, 0, -1, -1, 0),
    "open_tree": (428, -100, 0, 0), "fsopen": (430, 0, 0), "mount_setattr": (442, -1, 0, 0, 0, 0),
    "process_vm_readv": (270 if arm else 310, 0, 0, 0, 0, 0, 0), "pidfd_getfd": (438, -1, 0, 0),
    "process_vm_writev": (271 if arm else 311, 0, 0, 0, 0, 0, 0), "kcmp": (272 if arm else 312, 1, 1, 99, 0, 0),
    "move_mount": (429, -1, 0, -1, 0, 0), "fsmount": (432, -1, 0, 0), "fspick": (433, -1, 0, 0),
    "fanotify_init": (262 if arm else 300, 0xFFFFFFFF, 0), "name_to_handle_at": (264 if arm else 303, -1, 0, 0, 0, 0),
    "open_by_handle_at": (265 if arm else 304, -1, 0, 0), "syslog": (116 if arm else 103, 99, 0, 0),
    "reboot": (142 if arm else 169, 0, 0, 0, 0), "init_module": (105 if arm else 175, 0, 0, 0),
    "sethostname": (161 if arm else 170, 1, 4), "settimeofday": (170 if arm else 164, 1, 0),
    "acct": (89 if arm else 163, 1), "quotactl": (60 if arm else 179, -1, 0, 0, 0),
    "request_key": (218 if arm else 249, 0, 0, 0, 0), "process_madvise": (440, -1, 0, 0, 0, 0),
}
for bit in (17, 25, 26, 27, 29, 30):
    calls[f"clone with {1 << bit:#x}"] = (220 if arm else 56, 1 << bit | 17, 0, 0, 0, 0)
for name, (number, *arguments) in calls.items():
    child = os.fork()
    if not child:
        given = [ctypes.c_long(argument) for argument in arguments]
        result = libc.syscall(ctypes.c_long(number), *given)
        number = ctypes.get_errno() if result < 0 else 0
        refused = number in (errno.EPERM, errno.ENOSYS, errno.EACCES)
        os.write(1, f"{'' if refused else 'GOT '}{name}: {os.strerror(number)}\\n".encode())
        os._exit(0)
    os.waitpid(child, 0)
"""


DEVICES = """
import errno, fcntl, os, pty, stat
def attempt(name, work):
    try:
        work()
        print("GOT", name)
    except OSError as error:
        # The kernel may be set to refuse TIOCSTI by itself, which is another answer.
        print("GOT" if error.errno == errno.EIO else "not", name, error)
for name in ("mem", "kmsg", "kvm", "fuse", "net/tun", "vda", "sda", "loop-control", "tty0", "console", "input/event0"):
    attempt("/dev/" + name, lambda: os.close(os.open("/dev/" + name, os.O_RDWR | os.O_NONBLOCK)))
for name in ("kcore", "kmsg"):
    attempt("/proc/" + name, lambda: os.read(os.open("/proc/" + name, os.O_RDONLY | os.O_NONBLOCK), 4))
attempt("mknod", lambda: os.mknod("made-device", stat.S_IFCHR | 0o666, os.makedev(1, 1)))
attempt("a device in the working folder", lambda: os.open("device", os.O_RDONLY))
ours, theirs = pty.openpty()
os.setsid() if os.getpid() != os.getsid(0) else None
attempt("TIOCSTI", lambda: fcntl.ioctl(theirs, 0x5412, b"x"))
attempt("TIOCLINUX", lambda: fcntl.ioctl(theirs, 0x541C, b"\\x02"))
"""


def forbidden_calls(place: Place) -> list[str]:
    """System calls, and devices: memory, disks, keyboards, and typing into a terminal."""
    with suppress(PermissionError):  # only root can make one
        os.mknod(place.tree / "device", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    found = _got(place.python(SYSCALLS)) + _got(place.python(DEVICES))
    for name in ("device", "made-device"):
        (place.tree / name).unlink(missing_ok=True)
    return found


def obeyed_files(place: Place) -> list[str]:
    """What git and tau execute or obey, in a working folder that may be written."""
    tree, found = place.tree, []
    (tree / "bare").mkdir(exist_ok=True)
    names = (".git/hooks/pre-commit", ".git/config", ".git/commondir", ".pi/settings.json", ".pi/extensions/x.py")
    for name in names:
        place.run(f"cd {tree} && mkdir -p $(dirname {name}); echo '{PWNED}' >> {name}")
    place.run(f"cd {tree} && mv .git old && cp -r old .git; rm -rf .git .pi; mv .pi old2")
    place.run(f"cd {tree} && mkdir new && echo '{PWNED}' > new/config && mv -T new .git; ln -s {place.outside} .pi")
    for name in (*names, ".git/new/config", "old", "old2"):
        path = tree / name
        if path.exists() and (path.is_dir() or PWNED in path.read_text()):
            found.append(name)
    if not (tree / ".git" / "HEAD").exists():
        found.append("removed")
    shutil.rmtree(tree / "new", ignore_errors=True)
    return found


def local_sockets(place: Place) -> list[str]:
    servers = [
        socket.socket(socket.AF_UNIX, kind) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_STREAM)
    ]
    paths = [str(place.tree / "s.sock"), str(place.tree / "d.sock"), f"\0{secrets.token_hex(8)}"]
    with ExitStack() as stack:
        for server, path in zip(servers, paths, strict=True):
            stack.enter_context(server).bind(path)
            server.settimeout(0.2)
        servers[0].listen()
        servers[2].listen()
        said = place.python(
            f"{CONNECT}\n"
            f"attempt('stream', lambda: socket.socket(socket.AF_UNIX).connect({paths[0]!r}))\n"
            f"attempt('abstract', lambda: socket.socket(socket.AF_UNIX).connect({paths[2]!r}))\n"
            f"attempt('packets', lambda: socket.socket(1, 2).sendto(b'x', {paths[1]!r}))\n"
            f"attempt('pair', lambda: socket.socketpair(1, 2)[0].sendto(b'x', {paths[1]!r}))\n"
            f"attempt('sendmsg', lambda: socket.socketpair(1, 2)[0].sendmsg([b'x'], [], 0, {paths[1]!r}))\n"
            f"attempt('reconnect', lambda: socket.socketpair(1, 2)[0].connect({paths[1]!r}))\n"
            "a, b = socket.socketpair()\n"
            f"attempt('stream sendmsg', lambda: a.sendmsg([b'x'], [], 0, {paths[1]!r}))\n"
        )
        with suppress(TimeoutError):
            servers[1].recv(10)
            said += "GOT datagram\n"
    return _got(said)


def _got(said: str) -> list[str]:
    return [line.removeprefix("GOT ") for line in said.splitlines() if line.startswith("GOT ")]


ESCAPES: dict[str, Callable[[Place], list[str]]] = {
    "X01": write_outside,
    "X02": read_denied,
    "X03": read_by_link,
    "X04": take_inside,
    "X05": connect,
    "X06": datagrams,
    "X07": other_processes,
    "X08": outlive,
    "X09": forbidden_calls,
    "X10": obeyed_files,
    "X11": local_sockets,
}


# X12: what a machine lacks is taken away by a filter of system calls around the whole program.

LANDLOCK = 444
UNSHARE = {"x86_64": 272, "aarch64": 97}.get(platform.machine(), 0)
CLONE = {"x86_64": 56, "aarch64": 220}.get(platform.machine(), 0)
CLONE3 = 435

WITHOUT = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
refused, words = eval(sys.argv[1]), sys.argv[2:]
steps = [(0x20, 0, 0, 0)]
for number, result in refused:
    steps += [(0x15, 0, 1, number), (0x06, 0, 0, 0x50000 | result)]
steps.append((0x06, 0, 0, 0x7FFF0000))
program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
filter = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(program))
assert not libc.prctl(38, 1, 0, 0, 0) and not libc.prctl(22, 2, filter, 0, 0)
os.execvp(words[0], words)
"""
# bubblewrap makes its namespaces with clone, which cannot be refused altogether: the processes of Python need it.
WITHOUT_NAMESPACES = WITHOUT.replace(
    "steps.append(",
    f"steps += [(0x15, 0, 3, {CLONE}), (0x20, 0, 0, 16), (0x45, 0, 1, 0x10000000), (0x06, 0, 0, 0x50001)]\n"
    "steps.append(",
)


def started(folder: Path, level: str, *around: str) -> subprocess.CompletedProcess[str]:
    """tau, asked to have its model run a command that leaves a trace."""
    answers = [{"blocks": [{"tool": "bash", "arguments": {"command": "touch ran"}}]}, {"text": "done"}]
    (folder / "script.json").write_text(json.dumps({"answers": answers}))
    env = surroundings(folder)
    words = [sys.executable, "-m", "tau", "--mode", "rpc", "--model", "scripted", "--script", "../script.json"]
    prompt = json.dumps({"type": "prompt", "message": "go"})
    return subprocess.run(
        [*around, *words, "--sandbox", level],
        cwd=folder / "work",
        env=env,
        input=f"{prompt}\n",
        capture_output=True,
        text=True,
        timeout=60,
    )


def without(*calls: tuple[int, int], code: str = WITHOUT) -> list[str]:
    return [sys.executable, "-c", code, repr(list(calls))]


def refused_without(folder: Path, level: str) -> bool:
    """Whether tau refuses to start, and says why, on a machine without Landlock and user namespaces."""
    folder.mkdir(parents=True, exist_ok=True)
    gone = (LANDLOCK, errno.ENOSYS), (CLONE3, errno.ENOSYS), (UNSHARE, errno.EPERM)
    done = started(folder, level, *without(*gone, code=WITHOUT_NAMESPACES))
    ran = (folder / "work" / "ran").exists()
    return (done.returncode, done.stdout, ran) == (2, "", False) and "cannot be enforced" in done.stderr
