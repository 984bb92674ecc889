"""Where things are kept."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def agent_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """The user's configuration: PI_CODING_AGENT_DIR, else ~/.pi/agent."""
    given = environment.get("PI_CODING_AGENT_DIR")
    return Path(given).expanduser() if given else Path.home() / ".pi" / "agent"
