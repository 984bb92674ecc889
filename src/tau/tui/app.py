"""The terminal interface: opens a session and a terminal, and connects them until the person leaves.

Events of the session change the view; keys change the view or start operations of the session. Nothing here decides
what the session does. The agent never waits for the terminal.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Sequence
from typing import Any, NoReturn

from tau.core.agent.draft import Update
from tau.core.checks.exit_codes import ANSWERED
from tau.errors import TauError
from tau.records.dialogs import UiRequest
from tau.records.events import Event
from tau.runtime.app.batch import Prompt
from tau.runtime.app.factory import SessionFactory
from tau.runtime.app.handle import SessionHandle
from tau.runtime.app.process import SHUTDOWN_TIMEOUT_S, StopSignal, run_and_exit


def serve(factory: SessionFactory, prompts: Sequence[Prompt]) -> NoReturn:
    """Run the interface and exit the process."""
    run_and_exit(lambda: _serve(factory, prompts))
