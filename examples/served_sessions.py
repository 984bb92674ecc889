"""Sessions of a host from a program without an event loop: open, prompt, leave, come back, close.

    python examples/served_sessions.py "list the files here"

Here the host is started by the example, with the offline demo model. With a host of your own (`tau serve`), `main` is
all you need.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import tau.sync
from tau import events

SERVE = [sys.executable, "-m", "tau", "serve", "--no-tcp", "--model", "demo"]


def main(question: str) -> None:
    with tau.sync.connect() as host:
        with host.open(name="example") as agent:
            id = agent.get_state().session_id
            for event in agent.prompt_events(question):
                match event:
                    case events.MessageUpdate(assistant_message_event=events.TextDelta(delta=text)):
                        print(text, end="", flush=True)
                    case events.ToolStart(tool_name=name):
                        print(f"\n[{name}]")
                    case _:
                        pass
        print()
        for row in host.list(live=True):  # we left, and it is still open
            print(f"open: {row.name}, {row.message_count} messages")
        with host.attach(id) as agent:
            print(f"its last answer begins with {(agent.get_last_assistant_text() or '')[:20]!r}")
        host.close(id)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="tau-") as folder:
        os.environ["PI_CODING_AGENT_DIR"] = folder
        with subprocess.Popen(SERVE, stdout=subprocess.PIPE) as served:
            assert served.stdout is not None
            served.stdout.readline()  # it listens
            main(" ".join(sys.argv[1:]) or "list the files here")
            served.terminate()
