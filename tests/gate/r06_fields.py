"""R6: every field of every command, with what does not belong there. Each is refused by name, and changes nothing."""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

from faults.wrong_fields import CASES
from gate.figure import Figure
from support.rpc_process import Agent, Json

LOOKED_AT = ("get_state", "get_entries", "get_available_thinking_levels", "clear_queue", "get_session_stats")


def measure(scale: float, seed: int) -> list[Figure]:
    chosen = random.Random(seed).sample(CASES, len(CASES))  # all of them, always: it takes no time
    with tempfile.TemporaryDirectory(prefix="tau-gate-") as folder, Agent(Path(folder).resolve()) as agent:
        at_first, events = _everything(agent), len(agent.events)
        accepted = [(case, response) for case in chosen if not case.is_refused(response := case.ask(agent))]
        changed = [name for name, value in _everything(agent).items() if value != at_first[name]]
        changed += [event["type"] for event in agent.events[events:]]
    for case, response in accepted:
        print(f"{case}: {response}", file=sys.stderr)
    if changed:
        print(f"changed: {changed}", file=sys.stderr)
    return [
        Figure("R6", "wrong fields that are accepted, or not named", len(chosen), len(accepted), 0),
        Figure("R6", "things that wrong fields have changed", len(chosen), len(changed), 0),
    ]


def _everything(agent: Agent) -> Json:
    return {"settings.json": agent.settings, **{kind: agent.get(kind) for kind in LOOKED_AT}}
