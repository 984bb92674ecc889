"""The options of the tmux that this process runs in."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping

TIMEOUT_S = 2.0


def tmux_options(environment: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """The values of options; empty outside of tmux, and without those that this version does not have. Blocks."""
    if not environment.get("TMUX"):
        return {}
    found: dict[str, str] = {}
    for name in names:
        try:
            done = subprocess.run(
                ["tmux", "show-options", "-gv", name],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TIMEOUT_S,
                text=True,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return found
        if done.returncode == 0 and done.stdout.strip():
            found[name] = done.stdout.strip()
    return found
