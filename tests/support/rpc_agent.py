"""`Agent` for tests of the protocol and the session: in this process, or a real process where the test needs one.

tests/rpc/conftest.py chooses for each test. A test that is marked with `process` or `promise` gets real processes, and
so do all of them with TAU_TEST_PROCESSES=1. With TAU_TEST_SERVED=1 the others are clients of a host, with
TAU_TEST_SERVED=websocket over a real WebSocket, with TAU_TEST_SERVED=bridge through the bridge. For modules that are
all about processes: support.rpc_process.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from support import rpc_bridged, rpc_memory, rpc_process, rpc_served, rpc_websocket
from support.rpc_conversation import Conversation

ONLY_PROCESSES = bool(os.environ.get("TAU_TEST_PROCESSES") or os.environ.get("TAU_RPC"))
SERVED: Any = {"": rpc_memory, "websocket": rpc_websocket, "bridge": rpc_bridged}
IN_MEMORY = SERVED.get(os.environ.get("TAU_TEST_SERVED", ""), rpc_served)
FOR_PROCESSES = {"program", "stdin"}  # arguments that only a process can have

in_memory = False  # set for each test


class Agent(Conversation):
    """One running agent, of either kind; they have the same interface."""

    def __new__(cls, folder: Path, *answers: Any, **options: Any) -> Any:
        memory = in_memory and not ONLY_PROCESSES and not FOR_PROCESSES & options.keys()
        return (IN_MEMORY.Agent if memory else rpc_process.Agent)(folder, *answers, **options)
