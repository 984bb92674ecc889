"""R10: an abort is answered within a second, whatever the run is doing."""

from __future__ import annotations

import tempfile
from pathlib import Path

from gate.figure import Figure
from support.abort_scenes import SCENES, on_stage, seconds_to_abort, seconds_to_abort_in
from support.rpc_process import Agent

ABORTS = 100  # in each case
LIMIT = 1.0
CASES = (
    "streaming",
    "a model that stalls in its answer",
    "between two tries",
    "a tool that ignores SIGTERM",
    "a hook that hangs",
    "a dialog that nobody answers",
    "an extension that loops",
)


def measure(scale: float, seed: int) -> list[Figure]:
    count = max(3, round(ABORTS * scale))
    with tempfile.TemporaryDirectory(prefix="tau-gate-") as folder:
        taken = {"idle": idle(count, Path(folder))}
        for name in CASES:
            taken[name] = aborted(name, count, Path(folder))
    return [Figure("R10", f"abort, p99: {name}", count, p99(all), LIMIT, "s") for name, all in taken.items()]


def idle(count: int, folder: Path) -> list[float]:
    with Agent(folder / "idle") as agent:
        agent.get("get_state")  # from here on it is idle, and no longer starting
        return [seconds_to_abort(agent) for _ in range(count)]


def aborted(name: str, count: int, folder: Path) -> list[float]:
    """One agent after the other, each as long as the scene can be played with it."""
    taken: list[float] = []
    while len(taken) < count:
        place = folder / f"{name} {len(taken)}"
        place.mkdir()
        with on_stage(place, name) as agent:
            for _ in range(min(SCENES[name].played, count - len(taken))):
                taken.append(seconds_to_abort_in(name, agent))
                agent.forget()
    return taken


def p99(taken: list[float]) -> float:
    """No more than one in a hundred took longer."""
    return sorted(taken)[-1 - len(taken) // 100]
