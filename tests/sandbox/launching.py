"""Start the launcher of a sandbox with a plan that was made earlier, as the agent does."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tau.runtime.sandbox.launcher import Plan, python_words
from tau.runtime.sandbox.policy import Sandbox

READY_TIMEOUT_S = 30


def sandbox(folder: Path, level: str, **more: object) -> Sandbox:
    """For the folder `work`, with an empty home beside it unless the test has put something there."""
    for name in ("work", "home", "agent"):
        (folder / name).mkdir(exist_ok=True)
    environment = {"HOME": str(folder / "home")}
    return Sandbox(level, str(folder / "work"), folder / "agent", environment=environment, **more)  # type: ignore[arg-type]


def launched(words: Sequence[str]) -> str:
    """What the launcher answers: "ready", or "refused" and why. The sandbox has ended when this returns."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with theirs:
            process = subprocess.Popen(words, stdin=theirs.fileno(), cwd="/", start_new_session=True)
        ours.settimeout(READY_TIMEOUT_S)
        answer = ours.recv(4096).decode()
    process.wait(READY_TIMEOUT_S)
    return answer


def launched_with(plan: Plan) -> str:
    return launched(python_words("main", plan.arguments()))
