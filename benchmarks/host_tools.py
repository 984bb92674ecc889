"""What a call of a client's tool costs, beside a call of the built-in `ls` in an empty folder.

    python -m benchmarks.host_tools [CALLS]

Both run in one prompt of a scripted model over RPC, and the client reads everything. The limit is 0.4 ms more per call,
on a quiet machine: a call waits twice for the other process to be scheduled.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CALLS = 10_000
CALLS_PER_ANSWER = 100
LIMIT_MS = 0.4
TOOL = {"name": "lookup", "description": "Look something up.", "parameters": {"type": "object"}}


def milliseconds_per_call(folder: Path, tool: str, calls: int) -> float:
    answer = {"blocks": [{"tool": tool, "arguments": {}}] * CALLS_PER_ANSWER}
    script = folder / "script.json"
    script.write_text(json.dumps({"answers": [answer] * (calls // CALLS_PER_ANSWER) + [{"text": "done"}]}))
    flags = ["--model", "scripted", "--script", str(script), "--no-session", "--tools", "ls"]
    command = [sys.executable, "-P", "-m", "tau", "--mode", "rpc", *flags]
    env = {**os.environ, "PI_CODING_AGENT_DIR": str(folder / "agent")}
    with subprocess.Popen(
        command, cwd=folder / "work", env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as agent:
        assert agent.stdin is not None and agent.stdout is not None
        agent.stdin.write(json.dumps({"type": "set_tools", "tools": [TOOL]}).encode() + b"\n")
        agent.stdin.flush()
        agent.stdout.readline()
        started = time.perf_counter()
        agent.stdin.write(b'{"type":"prompt","message":"go"}\n')
        agent.stdin.flush()
        for line in agent.stdout:
            if line.startswith(b'{"type":"tool_request"'):
                result = {"type": "tool_result", "requestId": json.loads(line)["id"], "content": "(empty directory)"}
                agent.stdin.write(json.dumps(result).encode() + b"\n")
                agent.stdin.flush()
            elif line.startswith(b'{"type":"agent_settled"'):
                break
        took = time.perf_counter() - started
        agent.stdin.close()
    return took / calls * 1000


def main() -> int:
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else CALLS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "work").mkdir()
        built_in, lent = (milliseconds_per_call(folder, tool, calls) for tool in ("ls", "lookup"))
    print(f"{calls} calls: ls {built_in:.3f} ms, a tool of the client {lent:.3f} ms, {lent - built_in:+.3f} ms")
    return 0 if lent - built_in <= LIMIT_MS else 1


if __name__ == "__main__":
    sys.exit(main())
