"""Commands as leaders of process groups, where there is no runner.

To end one is to kill its group: a process that leaves the group is not found
again, and nothing is killed when we are killed ourselves.
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

    def __init__(self, order: CommandSpec, tell: Callable[[bytes], None]) -> None:
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._process = _popen(order)
        self._waited = False
        try:
            # A thread waits, because not every system can wait in the loop.
            threading.Thread(target=self._wait, name=f"wait for {self._process.pid}", daemon=True).start()
        except RuntimeError as error:  # there are too many threads
            _signal(self._process.pid)
            self._process.wait()
            raise ToolError(f"Cannot run the command: {error}") from None
        self._loop.call_soon(tell, b"taken")

    def kill(self) -> None:
        if self.is_alive():
            _signal(self._process.pid)

    def is_alive(self) -> bool:
        return not self._waited or _is_left(self._process.pid)

    def _wait(self) -> None:
        code = self._process.wait()
        self._waited = True
        with suppress(RuntimeError):  # the loop is closed, so nobody asks any more
            self._loop.call_soon_threadsafe(self._tell, b"exit %d" % code)
            self._loop.call_soon_threadsafe(self._tell, b"")


def _popen(order: CommandSpec) -> subprocess.Popen[bytes]:
    # The child still has our descriptors when it changes its folder. Only Linux has such names for folders.
    cwd = order.cwd if order.folder is None else f"/proc/self/fd/{order.folder}"
    try:
        return subprocess.Popen(
            order.words,
            cwd=cwd,
            env=order.env,
            stdin=subprocess.DEVNULL,
            stdout=order.stdout,
            stderr=order.stderr,
            start_new_session=True,
        )
    except OSError as error:
        what = "cwd" if error.filename == cwd else "exec" if error.filename else "fork"
        raise start_error(what, error.errno or 0, order) from None
    except ValueError:
        raise ToolError(NUL) from None


def _signal(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass
    except PermissionError:  # somebody in the group is not ours to kill; its leader is
        with suppress(OSError):
            os.kill(group, signal.SIGKILL)


def _is_left(group: int) -> bool:
    """Whether processes of a group are alive whose leader is dead.

    No new process gets a number that is still the number of a group. So when there
    is one again, the group is gone and the number belongs to a stranger.
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
