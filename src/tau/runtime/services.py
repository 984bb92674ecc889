"""Services: the collaborators and paths that a session uses and does not own, and the client that it reports to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tau.core.agent.draft import Update
from tau.records.base import Value
from tau.records.dialogs import UiRequest
from tau.records.events import Event
from tau.records.settings import SandboxLevel
from tau.store.settings import SettingsFile
from tau.tools import Tool

if TYPE_CHECKING:
    from tau.llm.types import Transport
    from tau.runtime.telemetry.observer import ObservedSession, SessionObserver
    from tau.tools import Machine

Mode = Literal["rpc", "json", "print", "library", "tui", "acp"]
# Receives the events of a session. It may return an awaitable: the session then waits for it before it sends more.
Client = Callable[[Event | Update | UiRequest], Awaitable[None] | None]


class Services(Value):
    cwd: str
    start: str  # where the program was started: a client's relative paths of files to write are relative to it
    machine: Machine
    transport: Transport
    tools: Mapping[str, Tool]
    settings_file: SettingsFile | None
    sessions: Path | None  # the folder for session files; None keeps them in memory
    script: bytes = b""
    mode: Mode = "rpc"  # "rpc", "tui" and "acp" always have a client that can answer dialogs
    agent_dir: Path | None = None  # the user's files; None means the default location
    sandbox: SandboxLevel | None = None  # level of the sandbox that confines the machine
    observe: Callable[[ObservedSession], SessionObserver] | None = None  # telemetry
