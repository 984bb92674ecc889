"""An agent that does what the prompt says, and nothing else: for what real agents do rarely.

A prompt is a JSON list of acts, each a list of a name and its arguments; see ACTS. Other commands are answered.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

STATE = {
    "thinkingLevel": "off",
    "isStreaming": False,
    "isCompacting": False,
    "steeringMode": "all",
    "followUpMode": "all",
    "sessionId": "s",
    "autoCompactionEnabled": True,
    "messageCount": 0,
    "pendingMessageCount": 0,
    "fromTheFuture": {"kept": True},
}


def say(value: Any) -> None:
    print(json.dumps(value), flush=True)


def repeat(count: int, size: int, progress: str) -> None:
    """Events of that size, and how many were taken, in a file."""
    with open(progress, "w+b", buffering=0) as file:
        for number in range(count):
            say({"type": "noise", "number": number, "fill": "x" * size})
            file.seek(0)
            file.write(b"%d" % (number + 1))


def complain(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def leave_somebody(seconds: int) -> None:
    """A process in another group that holds our stdout."""
    subprocess.Popen(["sleep", str(seconds)], start_new_session=True)


ACTS: dict[str, Callable[..., Any]] = {
    "say": say,
    "print": lambda text: print(text, flush=True),
    "complain": complain,
    "repeat": repeat,
    "exit": os._exit,
    "die": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "deaf": lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN),
    "sleep": time.sleep,
    "leave": leave_somebody,
}

if "FAKE_FIRST" in os.environ:
    print(os.environ["FAKE_FIRST"], flush=True)

for line in sys.stdin:
    command = json.loads(line)
    if command["type"] == "extension_ui_response":
        say({"type": "answered", "by": command})
        continue
    answer = {"id": command["id"], "type": "response", "command": command["type"], "success": True}
    if command["type"] == "prompt":
        acts = json.loads(command["message"])
        if acts[:1] != [["silent"]]:
            say(answer)
        for name, *arguments in acts:
            if name != "silent":
                ACTS[name](*arguments)
    elif command["type"] == "get_state":
        say({**answer, "data": STATE})
    elif command["type"] != "bash":  # which is never answered
        say(answer)
