"""Says when a long run is over: to the client, and with a command of yours.

NOTIFY_COMMAND is a program that gets the text as its last argument, such as "notify-send" or
"say"; NOTIFY_AFTER is how many seconds a run must have taken (30).
"""

import os
import shlex
import time

from tau.extension import Context, Event, Pi


def setup(pi: Pi) -> None:
    after = float(os.environ.get("NOTIFY_AFTER", "30"))
    command = shlex.split(os.environ.get("NOTIFY_COMMAND", ""))
    began = time.monotonic()

    @pi.on("agent_start")
    def start(event: Event, ctx: Context) -> None:
        nonlocal began
        began = time.monotonic()

    @pi.on("agent_end")
    async def end(event: Event, ctx: Context) -> None:
        took = time.monotonic() - began
        if event.will_retry or took < after:
            return
        answers = [message for message in event.messages if message["role"] == "assistant"]
        failed = bool(answers) and answers[-1]["stopReason"] in ("error", "aborted")
        text = f"{pi.get_session_name() or 'The agent'} {'has stopped' if failed else 'is done'} after {took:.0f} s"
        ctx.ui.notify(text, "warning" if failed else "info")
        if command:
            await pi.exec(command[0], [*command[1:], text], timeout=5_000)
