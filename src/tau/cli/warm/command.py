"""`tau warm start|status|stop`: the server that makes later starts warm."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

from tau.cli.entry import warm_folder
from tau.cli.flags import ParsedArguments
from tau.cli.warm.server import LOCK, READY
from tau.core.checks.exit_codes import ANSWERED, FAILED
from tau.errors import UsageError
from tau.runtime.terminal import complain, say

USAGE = "usage: tau warm start|status|stop"
STOP_TIMEOUT_S = 5.0
PROGRAM = "from tau.cli.warm.server import main; main()"


def main(arguments: ParsedArguments) -> int:
    action = {"start": start, "status": status, "stop": stop}.get(" ".join(arguments.words[1:]))
    if action is None:
        raise UsageError(USAGE)
    if sys.platform != "linux":
        raise UsageError("tau warm needs Linux")
    if not warm_folder():
        raise UsageError("TAU_WARM_DIR is empty, which turns warm starts off")
    return action()


def start() -> int:
    if (pid := server_pid()) is not None:
        say(f"already running (process {pid})")
        return ANSWERED
    server = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, warm_folder()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert server.stdout is not None and server.stderr is not None
    if server.stdout.readline() != READY:
        complain(f"Error: the server did not start: {server.stderr.read().decode(errors='replace').strip()}")
        return FAILED
    say(f"started (process {server.pid}): starts of tau and pi are warm now")
    server.returncode = 0  # it outlives this process
    return ANSWERED


def status() -> int:
    pid = server_pid()
    if pid is None:
        say("not running: starts are cold")
        return FAILED
    jobs = max(0, len(children(pid)) - 1)
    memory = sum(map(memory_of, [pid, *children(pid)[-1:]]))
    say(f"running (process {pid}), {jobs} {'job' if jobs == 1 else 'jobs'}, {memory / 1e6:.0f} MB without them")
    return ANSWERED


def stop() -> int:
    pid = server_pid()
    if pid is None:
        say("not running")
        return ANSWERED
    process = os.pidfd_open(pid)
    jobs = max(0, len(children(pid)) - 1)
    signal.pidfd_send_signal(process, signal.SIGTERM)
    poll = select.poll()
    poll.register(process, select.POLLIN)
    if jobs:
        say(f"stopping: the server ends with the last of {jobs} running {'job' if jobs == 1 else 'jobs'}")
    elif not poll.poll(STOP_TIMEOUT_S * 1000):
        complain(f"Error: process {pid} does not end")
        return FAILED
    else:
        say("stopped")
    return ANSWERED


def server_pid() -> int | None:
    """The process that holds the lock; None if there is none."""
    try:
        with open(os.path.join(warm_folder(), LOCK), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return None
    except BlockingIOError:
        return int(Path(warm_folder(), LOCK).read_text())
    return None


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def memory_of(pid: int) -> int:
    """Its share of memory (PSS), in bytes."""
    try:
        found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) * 1024 if found else 0
