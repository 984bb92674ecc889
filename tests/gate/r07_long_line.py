"""R7: one line of 100 MB. It is refused while it streams: in little time, in little memory, and the next line works."""

from __future__ import annotations

import tempfile
from pathlib import Path

from gate.figure import Figure
from support.rpc_process import Agent

MIB = 1 << 20
SIZE = 100_000_000  # whatever the scale: a shorter line may be within the limit
PORTION = b"x" * MIB


def measure(scale: float, seed: int) -> list[Figure]:
    rounds = max(1, round(scale))
    took = extra = 0.0
    with tempfile.TemporaryDirectory(prefix="tau-gate-") as folder, Agent(Path(folder).resolve()) as agent:
        agent.get("get_state")
        for _ in range(rounds):
            cpu, memory, before = agent.cpu, agent.memory, len(agent.responses)
            agent.write(b'{"type":"prompt","message":"')
            for _ in range(SIZE // MIB):
                agent.write(PORTION)
            refusal = agent.next_response(after=before)  # before the line has come to its end
            agent.write(b'"}\n')
            assert (refusal["command"], refusal["success"]) == ("parse", False), refusal
            agent.get("get_state")
            assert len(agent.responses) == before + 2, agent.responses[before:]
            took, extra = max(took, agent.cpu - cpu), max(extra, agent.memory - memory)
    return [
        Figure("R7", "processor time for one line of 100 MB", rounds, took, 2, "s"),
        Figure("R7", "extra memory for one line of 100 MB", rounds, extra / MIB, 64, "MiB"),
    ]
