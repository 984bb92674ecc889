"""Helper commands: programs of the user that print a key or credentials. None outlives tau."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_running: set[subprocess.Popen[bytes]] = set()


@contextmanager
def helper_command(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Wait for a command inside this. It is killed if that fails, and by `stop_commands`."""
    _running.add(process)
    try:
        yield
    except BaseException:
        _kill(process)
        raise
    finally:
        _running.discard(process)


def stop_commands() -> None:
    """Kill the commands that still run in threads when the program ends."""
    for process in list(_running):
        _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a command and, where the system lists them (Linux), the programs that it has started."""
    started = _descendants(process.pid) if process.poll() is None else []
    process.kill()
    for pid in started:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            children = [int(word) for word in file.read().split()]
    except (OSError, ValueError):
        return []
    return [*children, *(below for child in children for below in _descendants(child))]
