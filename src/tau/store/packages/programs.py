"""npm and git as processes: their output goes to stderr, and they end with tau, however it ends.

What they start may outlive a killed tau, as may they where the system cannot end them with it. So they inherit the lock
of the folder that is changed: the next tau waits until all of them are gone, and only then cleans up.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tau.concurrency.helper_commands import collect_output, helper_command, program_output
from tau.store.packages.busy import held_locks
from tau.store.packages.errors import PackageError

LAST_LINES = 40
PR_SET_PDEATHSIG, SIGKILL = 1, 9


def run_program(
    words: Sequence[str], cwd: Path, *, variables: Mapping[str, str] | None = None, show: Callable[[str], None]
) -> list[str]:
    """Run a program and return its last lines. `show` gets each line. Raises PackageError if it fails."""
    if shutil.which(words[0]) is None:
        raise PackageError(f"{words[0]} is not on PATH; it is needed for this package.")
    last: deque[str] = deque(maxlen=LAST_LINES)
    process = _start(words, cwd, variables, subprocess.STDOUT)
    rest = b""
    with process, helper_command(process):
        for _, data in program_output(process):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                last.append(line.decode("utf-8", "replace").rstrip())
                show(last[-1])
        if rest:
            last.append(rest.decode("utf-8", "replace").rstrip())
            show(last[-1])
    if process.returncode:
        raise PackageError(_failure(words, process.returncode, list(last)))
    return list(last)


def capture(words: Sequence[str], cwd: Path, *, variables: Mapping[str, str] | None = None) -> str:
    """Run a program that prints a short answer, and return it. Raises PackageError if it fails."""
    process = _start(words, cwd, variables, subprocess.PIPE)
    with process, helper_command(process):
        stdout, stderr = collect_output(process)
    if process.returncode:
        raise PackageError(_failure(words, process.returncode, stderr.decode("utf-8", "replace").splitlines()))
    return stdout.decode("utf-8", "replace").strip()


def _start(
    words: Sequence[str], cwd: Path, variables: Mapping[str, str] | None, stderr: int
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            list(words),
            cwd=cwd,
            env={**os.environ, **(variables or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            preexec_fn=_end_with_this_process(),
            pass_fds=held_locks(),
        )
    except OSError as error:
        raise PackageError(f"{words[0]} cannot be started: {error.strerror or error}") from None


def _end_with_this_process() -> Callable[[], None] | None:
    """Return what a child calls before it becomes the program, so that it ends with this process."""
    if sys.platform != "linux":
        return None
    import ctypes

    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def end_with_parent() -> None:
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # tau was killed before the call, so no signal will come
            os._exit(1)

    return end_with_parent


def _failure(words: Sequence[str], code: int, lines: Sequence[str]) -> str:
    """One sentence: the program, and the most telling of its last lines."""
    marked = [line for line in lines if line.startswith(("npm error ", "npm ERR! ", "fatal: ", "error: "))]
    telling = [
        line
        for line in marked
        if not line.startswith(("npm error A complete log", "npm error code", "npm error errno"))
    ]
    reason = next(iter(telling or marked or [line for line in reversed(lines) if line]), "")
    return f"{os.path.basename(words[0])} failed with code {code}" + (f": {reason}" if reason else "")
