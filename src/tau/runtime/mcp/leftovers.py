"""Processes of servers that an earlier agent left behind: with the command line of the server, but without a parent.

tau ends its servers even when it is killed. Other programs with the same configuration may not. Linux only: processes
are read from /proc.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from tau.mcp.config import ServerConfig

PROC = Path("/proc")


def leftover_processes(config: ServerConfig) -> list[int]:
    """The ids of processes that run this server, and whose parent is gone."""
    if not config.command:
        return []
    found = []
    for folder in PROC.glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            if folder.stat().st_uid == os.getuid() and _runs(folder, config) and _is_orphan(folder):
                found.append(int(folder.name))
    return sorted(found)


def _runs(folder: Path, config: ServerConfig) -> bool:
    """True for the command with its arguments, and for a script whose interpreter is named before them."""
    words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    program = len(words) - len(config.args) - 1
    if program < 0 or tuple(words[program + 1 :]) != config.args:
        return False
    return os.path.basename(words[program]) == os.path.basename(config.command)


def _is_orphan(folder: Path) -> bool:
    """True if the first process of the system, or of the user, has taken the process over."""
    parent = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[1]
    return parent == "1" or (PROC / parent / "comm").read_text(errors="replace").strip() == "systemd"
