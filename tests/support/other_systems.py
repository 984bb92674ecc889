"""This system without what only Linux has, and a pretended Windows, for programs started with such an environment.

A `sitecustomize` removes the functions and files before the program runs. It is no other kernel: what is tried is that
tau does not ask for what is not there, or goes on without it.
"""

from __future__ import annotations

from pathlib import Path

# What macOS lacks, of the modules that tau uses.
NO_LINUX = """
import ctypes, os, resource, select, signal, socket, sys, types

sys.platform = "darwin"
sys.modules["_scproxy"] = scproxy = types.ModuleType("_scproxy")
scproxy._get_proxy_settings = lambda: {}
scproxy._get_proxies = lambda: {}
LACKS = {
    os: "pidfd_open memfd_create eventfd pipe2 fdatasync posix_fadvise posix_fallocate copy_file_range splice getresuid"
    " setresuid getresgid setresgid listxattr getxattr setxattr removexattr sched_getaffinity sched_setaffinity waitid"
    " O_PATH O_TMPFILE unshare setns getrandom",
    signal: "pidfd_send_signal SIGRTMIN SIGRTMAX",
    select: "epoll",
    socket: "SO_PEERCRED SOCK_CLOEXEC SOCK_NONBLOCK AF_NETLINK",
    resource: "prlimit",
}
for module, names in LACKS.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)

HIDDEN = ("/proc", "/sys/fs/cgroup")


def hidden(path):
    try:
        text = os.fsdecode(path)
    except TypeError:
        return False
    return text.startswith(HIDDEN)


def audited(event, args):
    if event in ("open", "os.listdir", "os.scandir") and args and hidden(args[0]):
        raise FileNotFoundError(2, "No such file or directory", os.fsdecode(args[0]))


sys.addaudithook(audited)


def without_hidden(function):
    def called(path, *args, **keywords):
        if hidden(path):
            raise FileNotFoundError(2, "No such file or directory", os.fsdecode(path))
        return function(path, *args, **keywords)

    return called


for name in ("stat", "lstat", "readlink", "access"):
    setattr(os, name, without_hidden(getattr(os, name)))
os.supports_follow_symlinks |= {os.stat, os.access}
os.supports_dir_fd |= {os.stat, os.lstat, os.readlink, os.access}

found = ctypes.CDLL.__getattr__
ONLY_LINUX = {"prctl", "syscall", "inotify_init", "inotify_init1", "inotify_add_watch", "unshare", "mount", "setns"}


def symbol(library, name):
    if name in ONLY_LINUX:
        raise AttributeError(f"dlsym(RTLD_DEFAULT, {name}): symbol not found")
    return found(library, name)


ctypes.CDLL.__getattr__ = symbol
"""

# As far as a program sees it before it does anything.
WINDOWS = '''
import os, sys

os.name, sys.platform = "nt", "win32"
for name in ("fork", "getuid", "geteuid", "getpgid", "killpg", "setsid", "uname", "openpty", "waitid"):
    if hasattr(os, name):
        delattr(os, name)


class Absent:
    """Finds nothing for modules that Windows does not have."""

    names = {"fcntl", "termios", "tty", "pty", "pwd", "grp", "resource", "readline", "posix", "_posixsubprocess"}

    def find_spec(self, name, path=None, target=None):
        if name in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


for name in Absent.names:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Absent())
'''


def pretend(folder: Path, system: str) -> dict[str, str]:
    """The environment of a program that runs on such a system."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text(system)
    return {"PYTHONPATH": str(folder)}
