"""Random kills of MCP servers and of the agent: no process is left, no call is made twice, nothing hangs.

python tests/long/mcp_kills.py [ROUNDS] [SEED]        200 rounds take some minutes
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.mcp_server import server_entry
from support.mcp_session import script
from support.rpc_process import Agent

CALLS = 4
LEFT_AFTER_S = 3.0
ENDINGS = ("server", "eof", "term", "kill")


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (OSError, ValueError):
        return False


def started(journal: Path) -> list[int]:
    lines = journal.read_text().splitlines() if journal.exists() else []
    return [int(line.split()[1]) for line in lines if line.startswith("started ")]


def play(folder: Path, chance: Random) -> str:
    """One agent, one kill at a random moment. Returns what is wrong; empty if nothing is."""
    journal, counted = folder / "journal", folder / "counted"
    (folder / "agent").mkdir(parents=True)
    fault = chance.choice(["", "stubborn"])
    entry = server_entry(tools=["count", "wait"], journal=str(journal), fault=fault)
    (folder / "agent" / "mcp.json").write_text(json.dumps({"mcpServers": {"s": entry}}))
    calls: list[tuple[str, dict[str, Any]]] = []
    for _ in range(CALLS):
        calls += [("mcp__s__count", {"file": str(counted)}), ("mcp__s__wait", {"seconds": 0.02})]
    ending, delay = chance.choice(ENDINGS), chance.random() * 1.5
    with Agent(folder, *script(*calls)) as agent:
        agent.send("prompt", message="go")
        time.sleep(delay)
        if ending == "server":
            for pid in started(journal):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            agent.settled()  # after a kill the run goes on: the next call works, or says why not
            agent.close()
        elif ending == "eof":
            agent.close()
        else:
            agent.signal(signal.SIGTERM if ending == "term" else signal.SIGKILL)
        agent.exit_code()
        pids = started(journal)
    until = time.monotonic() + LEFT_AFTER_S
    while any(map(running, pids)) and time.monotonic() < until:
        time.sleep(0.02)
    if left := [pid for pid in pids if running(pid)]:
        return f"{ending} after {delay:.2f} s: processes {left} are left"
    made = counted.read_text() if counted.exists() else ""
    asked = journal.read_text().count('"name":"count"') if journal.exists() else 0
    return f"{ending}: {len(made)} calls for {asked} requests" if len(made) > min(CALLS, asked) else ""


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    problems: list[str] = []
    for at in range(rounds):
        with tempfile.TemporaryDirectory(prefix="tau-mcp-") as folder:
            problem = play(Path(folder) / "x", Random(seed * 1_000_003 + at))
        if problem:
            problems.append(f"round {at}: {problem}")
            print(problems[-1], flush=True)
    print(f"{rounds} rounds, seed {seed}: {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
