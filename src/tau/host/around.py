"""What a session works with and does not own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tau.llm.calls import Transport
from tau.store.settings import SettingsFile
from tau.tools import Machine, Tool


@dataclass(frozen=True)
class Surroundings:
    cwd: str
    machine: Machine
    transport: Transport
    tools: Mapping[str, Tool]
    settings_file: SettingsFile | None
    sessions: Path | None  # the folder for session files; None keeps them in memory
    script: bytes = b""
