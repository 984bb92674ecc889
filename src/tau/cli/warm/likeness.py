"""Likeness: whether a worker would run the job of a launcher exactly as the launcher itself would.

What a process can change about itself (environment, folder, umask, signals) the worker takes over. What it cannot, or
what was decided when it was started, must be the same on both sides: user, Python and its options, the files of tau,
the variables that the loader and Python read, limits, namespaces, control group, privileges, processors. The facts
about the launcher come from /proc and not from the launcher, so that a process in a sandbox cannot get out of it by a
lie.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tau
from tau.cli.warm.launcher import PROTOCOL, python

# Exit codes of a worker that runs no job: it is not for this launcher, or it has loaded files that have changed since.
DECLINED, STALE = 74, 75
READ_AT_START = (b"PYTHON", b"LD_", b"MALLOC_", b"GLIBC_", b"OPENSSL_")
NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts")
PRIVILEGES = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
PROCESSORS = ("Cpus_allowed", "Mems_allowed")

FileStates = dict[str, tuple[int, int]]


class ServerState:
    """What the server notes at its start, to compare launchers with."""

    def __init__(self) -> None:
        self.python = python()
        self.variables = read_at_start(os.environb)
        self.files: FileStates = {path: _state(path) for path in _watched()}


def read_at_start(environment: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """The variables that take effect when a process starts, and not later."""
    return {name: value for name, value in environment.items() if name.startswith(READ_AT_START)}


def _watched() -> set[str]:
    """All files of tau, and the folders of every other loaded module: an installation replaces files."""
    found = {str(file) for file in Path(tau.__file__).parent.rglob("*.py")}
    for module in list(sys.modules.values()):
        file = vars(module).get("__file__")  # not getattr, which would load a deferred module
        if file and not module.__name__.startswith("tau."):
            found.add(os.path.dirname(file))
    return found | {os.path.realpath(sys.executable)}


def _state(path: str) -> tuple[int, int]:
    """The time of change and the size; zeros for what is gone."""
    try:
        state = os.stat(path)
    except OSError:
        return (0, 0)
    return state.st_mtime_ns, state.st_size


def is_changed(files: FileStates) -> bool:
    return any(_state(path) != before for path, before in files.items())


def unlike_process(launcher: int) -> str:
    """What the process of a launcher has that this one cannot take over; "" if nothing.

    To be asked before anything is read from the launcher: a process in a sandbox must not have a way out of it.
    """
    try:
        ours, theirs = facts("self"), facts(str(launcher))
    except (OSError, ValueError, IndexError):
        return "the launcher's process is not readable"
    return ", ".join(name for name in ours if ours[name] != theirs[name])


def unlike_request(request: Mapping[str, Any], server: ServerState) -> str:
    """What stands against this request, which a process like this one has sent; "" if nothing does."""
    if request.get("protocol") != PROTOCOL or request["tau"] != (tau.__version__, tau.__file__):
        return "another tau"
    if request["python"] != server.python:
        return "another Python, or other options"
    if read_at_start(request["environment"]) != server.variables:
        return "other variables that are read at the start of a process"
    return ""


def facts(process: str) -> dict[str, Any]:
    """What must be the same, by name. `process` is an id or "self"."""
    folder = f"/proc/{process}"
    status = status_of(process)
    return {
        **{name: status.get(name) for name in (*PRIVILEGES, *PROCESSORS)},
        **{f"{name} namespace": _link(f"{folder}/ns/{name}") for name in NAMESPACES},
        "root": _same_file(f"{folder}/root"),
        "limits": _content(f"{folder}/limits"),
        "cgroup": _content(f"{folder}/cgroup"),
        "oom_score_adj": _content(f"{folder}/oom_score_adj"),
        "security label": _label(f"{folder}/attr/current"),
        "scheduling": _scheduling(process),
    }


def status_of(process: str) -> dict[str, str]:
    """/proc/PID/status, by name."""
    lines = _content(f"/proc/{process}/status").decode(errors="replace").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _scheduling(process: str) -> tuple[int, int]:
    number = 0 if process == "self" else int(process)
    return os.getpriority(os.PRIO_PROCESS, number), os.sched_getscheduler(number)


def _content(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()


def _label(path: str) -> bytes:
    """Of AppArmor, SELinux and the like; nothing where there is none."""
    try:
        return _content(path)
    except OSError:
        return b""


def _link(path: str) -> str:
    """Missing where the kernel does not know this kind of namespace."""
    try:
        return os.readlink(path)
    except FileNotFoundError:
        return ""


def _same_file(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino
