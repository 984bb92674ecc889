"""The options of the tmux that this process runs in."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping

from tau.concurrency.helper_commands import run_helper

TIMEOUT_S = 2.0


def tmux_options(environment: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """The values of options; empty outside of tmux, and without those that this version does not have. Blocks."""
    if not environment.get("TMUX"):
        return {}
    found: dict[str, str] = {}
    for name in names:
        try:
            code, printed = run_helper(["tmux", "show-options", "-gv", name], timeout=TIMEOUT_S, env=environment)
        except (OSError, subprocess.TimeoutExpired):
            return found
        if code == 0 and (value := printed.decode("utf-8", "replace").strip()):
            found[name] = value
    return found
