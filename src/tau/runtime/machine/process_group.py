"""Process-group back end: runs commands as group leaders where there is no supervisor.

Killing a command kills its process group. A process that leaves the group survives, and nothing is killed if the
agent itself is killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress

from tau.errors import ToolError
from tau.runtime.machine.command import NUL, CommandSpec, start_error


class ProcessGroup:
    """A command as the leader of a process group."""

    def __init__(self, spec: CommandSpec, on_message: Callable[[bytes], None]) -> None:
        self._tell = on_message
        self._loop = asyncio.get_running_loop()
        self._process = _popen(spec)
        self._waited = False
        try:
            # A thread waits for the process, because not every system can do that in the event loop.
            threading.Thread(target=self._wait, name=f"wait for {self._process.pid}", daemon=True).start()
        except RuntimeError as error:  # too many threads
            _signal(self._process.pid)
            self._process.wait()
            raise ToolError(f"Cannot run the command: {error}") from None
        self._loop.call_soon(on_message, b"taken")

    def kill(self) -> None:
        if self.is_alive():
            _signal(self._process.pid)

    def terminate(self) -> None:
        if self.is_alive():
            _signal(self._process.pid, signal.SIGTERM)

    def is_alive(self) -> bool:
        return not self._waited or _is_left(self._process.pid)

    def _wait(self) -> None:
        code = self._process.wait()
        self._waited = True
        with suppress(RuntimeError):  # the loop is closed, so nothing listens any more
            self._loop.call_soon_threadsafe(self._tell, b"exit %d" % code)
            self._loop.call_soon_threadsafe(self._tell, b"")


def _popen(spec: CommandSpec) -> subprocess.Popen[bytes]:
    # The child still has our descriptors when it changes its working folder. Only Linux has these paths.
    cwd = spec.cwd if spec.folder is None else f"/proc/self/fd/{spec.folder}"
    try:
        return subprocess.Popen(
            spec.words,
            cwd=cwd,
            env=spec.env,
            stdin=subprocess.DEVNULL if spec.stdin is None else spec.stdin,
            stdout=spec.stdout,
            stderr=spec.stderr,
            start_new_session=True,
        )
    except OSError as error:
        what = "cwd" if error.filename == cwd else "exec" if error.filename else "fork"
        raise start_error(what, error.errno or 0, spec) from None
    except ValueError:
        raise ToolError(NUL) from None


def _signal(group: int, number: int = signal.SIGKILL) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        pass
    except PermissionError:  # a member of the group belongs to another user; its leader is ours
        with suppress(OSError):
            os.kill(group, number)


def _is_left(group: int) -> bool:
    """True if processes of a group are alive after its leader has died.

    The kernel gives no new process a PID that is still the ID of a group. So if a process with this PID exists again,
    the group is gone and the PID belongs to an unrelated process.
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
