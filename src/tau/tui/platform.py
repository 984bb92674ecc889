"""Which platform the interface runs on, as far as keys and the clipboard depend on it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from tau.screen.key_table import Platform


def current_platform(environment: Mapping[str, str], name: str = sys.platform) -> Platform:
    if name == "darwin":
        return "darwin"
    if name == "win32":
        return "windows"
    return "wsl" if "WSL_DISTRO_NAME" in environment or _has_windows_kernel() else "linux"


def _has_windows_kernel() -> bool:
    try:
        return "microsoft" in Path("/proc/sys/kernel/osrelease").read_text(encoding="utf-8").lower()
    except OSError:
        return False
