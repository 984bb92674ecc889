"""mcp.log in the agent's folder: warnings of servers, and what they did wrong. Limited in size and rate."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tau.mcp.definitions import safe_text
from tau.records.base import BadRecord, encode

MAX_BYTES = 5 * 1024 * 1024
MAX_LINES_PER_MINUTE = 600
MAX_LINE_BYTES = 2 * 1024
LEVELS = ("warning", "error", "critical", "alert", "emergency")  # of `notifications/message`; others are dropped


class ServerLog:
    def __init__(self, agent_dir: Path) -> None:
        self.path = agent_dir / "mcp.log"
        self._minute = 0
        self._lines = 0

    def message(self, server: str, params: Any, hide: Callable[[str], str]) -> None:
        """A log message of a server. `hide` replaces secrets."""
        level = params.get("level")
        if level in LEVELS:
            data = params.get("data")
            try:
                text = data if isinstance(data, str) else encode(data).decode()
            except (BadRecord, TypeError):
                text = "(unreadable)"
            if self._lines <= MAX_LINES_PER_MINUTE or self._is_next_minute():
                self.write(server, f"{level}: {hide(text[:MAX_LINE_BYTES])}")

    def write(self, server: str, text: str) -> None:
        """Add a line. A failure has no effect."""
        if self._is_next_minute():
            self._minute, self._lines = _minute(), 0
        self._lines += 1
        if self._lines > MAX_LINES_PER_MINUTE:
            return
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        line = f"{stamp} {server} {safe_text(text, MAX_LINE_BYTES).replace(chr(10), ' ')}\n"
        try:
            self._append(line.encode("utf-8", "replace"))
        except OSError:
            return

    def _is_next_minute(self) -> bool:
        return _minute() != self._minute

    def _append(self, line: bytes) -> None:
        handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            is_full = os.fstat(handle).st_size + len(line) > MAX_BYTES
            if not is_full:
                os.write(handle, line)
        finally:
            os.close(handle)
        if is_full:
            os.replace(self.path, self.path.with_name("mcp.log.1"))
            self._append(line)


def _minute() -> int:
    return int(time.time() // 60)
