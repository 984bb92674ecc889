"""The RPC client with a real pi.

    python examples/drive_pi.py                         # the first pi on PATH that is not tau
    python examples/drive_pi.py node path/to/cli.js     # or this one

If pi is not installed, it prints a notice. The prompt needs a model and its key, configured in pi.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tau import AgentGone, events, sync

QUESTION = "In one sentence: what are you?"


def installed_pi() -> list[str] | None:
    """tau has a command of the same name, which is a small script of Python."""
    for folder in os.get_exec_path():
        program = Path(folder) / "pi"
        if program.is_file() and os.access(program, os.X_OK) and b"tau.cli" not in program.read_bytes()[:2000]:
            return [str(program)]
    return None


def main(words: list[str]) -> int:
    executable = words or installed_pi()
    if executable is None:
        print("pi is not installed. For the same with tau, see rpc_client.py")
        return 0
    try:
        with sync.RpcClient(executable=executable, args=["--no-session"]) as pi:
            state = pi.get_state()
            print(f"pi is running as process {pi.pid}, with {state.model.id if state.model else 'no model'}")
            print(f"its shell says: {pi.bash('echo hello').output.strip()}")
            if state.model is None:
                return 0
            for event in pi.prompt_events(QUESTION):
                match event:
                    case events.MessageUpdate(assistant_message_event=events.TextDelta(delta=text)):
                        print(text, end="", flush=True)
                    case events.AgentEnd():
                        print()
                    case _:
                        pass
    except AgentGone as gone:
        print(gone)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
