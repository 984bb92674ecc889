"""A command that says 10 GB: what it costs in memory and on disk, and whether the result is right.

    python tests/long/big_output.py [SIZE]      SIZE as head -c takes it; 10G unless told

Prints the figures as JSON and ends with 1 if one is over its limit.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parent.parent.parent / "src"
UNITS = {"M": 1024**2, "G": 1024**3}
MEMORY_LIMIT = 64 * 1024**2
DISK_LIMIT = 100 * 1024**2
NOTICE = b"\n[Only the first 100.0MB of the output are kept]\n"


def main(size: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(size, Path(folder))
    print(json.dumps(figures))
    return not all(figures["ok"].values())


def measure(size: str, folder: Path) -> dict[str, Any]:
    command = f"yes | head -c {size}"
    calls = [{"blocks": [{"tool": "bash", "arguments": {"command": said}}]} for said in ("true", command)]
    (folder / "script.json").write_text(
        json.dumps({"answers": [calls[0], {"text": "warm"}, calls[1], {"text": "done"}]})
    )
    agent = subprocess.Popen(
        [sys.executable, "-m", "tau", "--mode", "rpc", "--model", "scripted", "--script", "script.json"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "PI_CODING_AGENT_DIR": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    prompt(agent)
    before = memory(agent.pid, "VmRSS")  # without the runner: all of that counts as extra
    began = time.monotonic()
    result, helpers = prompt(agent)
    took = time.monotonic() - began
    extra = memory(agent.pid, "VmHWM") - before + helpers
    agent.communicate()

    lines = int(size[:-1]) * UNITS[size[-1]] // 2
    path = Path(result["details"]["fullOutputPath"])
    shown = "y\n" * 2000 + f"\n[Showing lines {lines - 1999}-{lines} of {lines}. Full output: {path}]"
    with path.open("rb") as file:
        right = all(file.read(1024**2) == b"y\n" * 2**19 for _ in range(100)) and file.read() == NOTICE
    disk = path.stat().st_size
    path.unlink()
    return {
        "seconds": round(took, 1),
        "extraMiB": round(extra / 1024**2, 1),
        "diskMiB": round(disk / 1024**2, 1),
        "ok": {
            "memory": extra <= MEMORY_LIMIT,
            "disk": disk <= DISK_LIMIT + len(NOTICE),
            "result": result["content"][0]["text"].split() == shown.split(),
            "file": right,
        },
    }


def prompt(agent: subprocess.Popen[bytes]) -> tuple[dict[str, Any], int]:
    """The result of the run's tool call, and the most memory that the runner and its keepers had meanwhile."""
    assert agent.stdin and agent.stdout
    agent.stdin.write(b'{"type":"prompt","message":"go"}\n')
    agent.stdin.flush()
    result: dict[str, Any] = {}
    helpers = 0
    for line in agent.stdout:
        record = json.loads(line)
        match record["type"]:
            case "tool_execution_update":
                runners = children(agent.pid)
                helpers = max(helpers, sum(memory(pid, "VmHWM") for one in runners for pid in (one, *children(one))))
            case "tool_execution_end":
                result = record["result"]
            case "agent_settled":
                return result, helpers
    raise SystemExit("the agent ended")


def memory(pid: int, what: str) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    said = status.partition(f"{what}:")[2].split()
    return int(said[0]) * 1024 if said else 0  # who has just ended has none


def children(pid: int) -> list[int]:
    try:
        return [
            int(one) for task in Path(f"/proc/{pid}/task").iterdir() for one in (task / "children").read_text().split()
        ]
    except OSError:
        return []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "10G"))
