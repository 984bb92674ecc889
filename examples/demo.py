"""Watch the agent work on this repository, offline: `make demo`.

Also the smallest useful client of RPC mode: start `pi`, write commands as JSON
lines to its stdin, read responses and events as JSON lines from its stdout.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PI = Path(sys.executable).parent / "pi"
TIMEOUT_S = 60  # for all prompts together
LINES_SHOWN = 3

PROMPTS = (
    "what are you?",
    "list the files here and then read README.md",
    "count the lines in Makefile and run `find src -name '*.py' | wc -l`",
)
REAL_MODEL = """\
That was the offline demo model. For real work give tau the key of a provider, for example

    export ANTHROPIC_API_KEY=...
    .venv/bin/pi --mode rpc

and talk to it as this file does: examples/demo.py."""


def show(event: dict[str, Any]) -> None:
    match event:
        case {"type": "message_update", "assistantMessageEvent": {"type": "text_delta", "delta": piece}}:
            print(piece, end="", flush=True)
        case {"type": "message_update", "assistantMessageEvent": {"type": "text_end"}}:
            print()
        case {"type": "tool_execution_start", "toolName": name, "args": arguments}:
            print(f"> {name}: {' '.join(str(value) for value in arguments.values())}", flush=True)
        case {"type": "tool_execution_end", "result": {"content": content}, "isError": failed}:
            lines = [line for block in content for line in block.get("text", "").splitlines()]
            more = [f"... {len(lines) - LINES_SHOWN} more lines"] if len(lines) > LINES_SHOWN else []
            print("\n".join(f"  {'!' if failed else '|'} {line}" for line in lines[:LINES_SHOWN] + more), flush=True)


def ask(pi: subprocess.Popen[bytes], prompt: str) -> None:
    """Send one prompt and show what happens until nothing more will."""
    assert pi.stdin is not None and pi.stdout is not None
    print(f"\n=== {prompt}\n", flush=True)
    pi.stdin.write(json.dumps({"type": "prompt", "message": prompt}).encode() + b"\n")
    pi.stdin.flush()
    for line in pi.stdout:
        event = json.loads(line)
        show(event)
        match event:
            case {"type": "response", "success": False}:
                sys.exit(f"The prompt was refused: {event.get('error')}")
            case {"type": "message_end", "message": {"stopReason": "error", "errorMessage": why}}:
                sys.exit(f"The model failed: {why}")
            case {"type": "agent_settled"}:
                return
    sys.exit(f"pi ended before its answer was complete, or had not answered after {TIMEOUT_S} seconds.")


def main() -> None:
    if not PI.exists():
        sys.exit(f"There is no {PI}. Run this by `make demo`, which installs it.")
    command = [str(PI), "--mode", "rpc", "--no-session", "--model", "demo"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as pi:
        watchdog = threading.Timer(TIMEOUT_S, pi.kill)  # a client must not wait forever
        watchdog.start()
        try:
            for prompt in PROMPTS:
                ask(pi, prompt)
            assert pi.stdin is not None
            pi.stdin.close()  # the end of its input tells pi to finish
            code = pi.wait()
        finally:
            watchdog.cancel()
            pi.kill()
    if code != 0:
        sys.exit(f"pi ended with exit code {code}.")
    print(f"\n{REAL_MODEL}")


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        sys.exit("pi ended before the prompt was sent; see the message above.")
