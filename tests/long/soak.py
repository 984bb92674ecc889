"""A long life in one process: prompts with tools, sessions, forks; memory and descriptors must not grow.

    python tests/long/soak.py [SECONDS]

Each round is a new session with a few prompts that call tools, steering, a fork
and the client's own shell commands. What a process keeps on purpose (the current
session) is small then, so what grows is lost.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from client import Agent

ROUND = 5
WARM_UP = 20  # rounds after which everything that is loaded late is loaded
GROWTH_PER_THOUSAND = 10 * 1024  # KiB of memory per thousand prompts
ANSWERS = [
    {"blocks": [{"text": "I look."}, {"tool": "bash", "arguments": {"command": "echo one; echo two"}}]},
    {"blocks": [{"thinking": "Hm."}, {"text": ["It ", "is ", "done."]}]},
]


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 300
    with tempfile.TemporaryDirectory() as folder, Agent(Path(folder), *ANSWERS * 50_000) as agent:
        end = time.monotonic() + seconds
        rounds = 0
        before: tuple[int, int] | None = None
        while time.monotonic() < end or before is None:
            one_round(agent)
            agent.forget()
            rounds += 1
            if rounds == WARM_UP:
                before = figures(agent)
        after = figures(agent)
    prompts = (rounds - WARM_UP) * ROUND
    allowed = max(2048, GROWTH_PER_THOUSAND * prompts // 1000)
    grown, more = after[0] - before[0], after[1] - before[1]
    print(f"{prompts} prompts after {WARM_UP} rounds: memory +{grown} KiB (allowed {allowed}), descriptors {more:+d}")
    return 0 if grown <= allowed and more <= 0 else 1


def one_round(agent: Agent) -> None:
    agent.get("new_session")
    for number in range(ROUND):
        agent.prompt(f"prompt {number}")
    agent.get("bash", command="echo hello")
    points = agent.get("get_fork_messages")["messages"]
    agent.get("fork", entryId=points[-1]["entryId"])
    agent.get("get_session_stats")


def figures(agent: Agent) -> tuple[int, int]:
    """Resident memory in KiB, and open descriptors."""
    status = Path(f"/proc/{agent.pid}/status").read_text()
    memory = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    return memory, len(os.listdir(f"/proc/{agent.pid}/fd"))


if __name__ == "__main__":
    sys.exit(main())
