"""R29: telemetry tells nothing of a conversation, does not mix sessions, and a receiver that hangs costs nothing."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from gate.figure import Figure
from gate.portion import portion
from support.otlp import Receiver
from support.telemetry_faults import FAULTS, cut_anywhere, noticed
from support.telemetry_figures import Cost, canaries, cost, sessions, silent

CANARIES = 10_000
SESSIONS = 200
PROMPTS = 1200  # two spans each: more than the queue takes
SLACK = 10  # on a busy machine
MEASURED = 0.1  # below this scale it is part of the tests, on a machine with much else to do


def measure(scale: float, seed: int) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="tau-gate-") as name:
        folder = Path(name)
        leaked, wrong = canaries(folder / "canaries", round(CANARIES * min(scale, 1)))
        mixed = sessions(folder / "sessions", max(10, round(SESSIONS * min(scale, 1))))
        prompts = max(20, round(PROMPTS * min(scale, 1)))
        hanging, healthy = _costs(folder, prompts)
        faults = portion(list(FAULTS), scale, seed)
        noticing = [line for fault in faults for line in noticed(folder / "faults", fault)]
        cut, raised = cut_anywhere(max(1, round(1 / min(scale, 1))))
    for line in (*leaked.found[:20], *wrong.found[:20], *mixed.found[:20], *noticing, *raised):
        print(f"R29: {line}", file=sys.stderr)
    slack = 1 if scale >= 1 else SLACK
    later, more = hanging.prompt_ms - healthy.prompt_ms, (hanging.kib - healthy.kib) / 1024
    delay = Figure("R29", "a receiver hangs: a run later, p50", prompts, max(0.0, round(later, 3)), 1 * slack, "ms")
    return [
        Figure("R29", "content and keys in telemetry, of canaries", leaked.tried, len(leaked.found), 0),
        Figure("R29", "spans and values that are not in the conventions", wrong.tried, len(wrong.found), 0),
        Figure("R29", "spans in the trace of another session", mixed.tried, len(mixed.found), 0),
        Figure(
            "R29", "receivers that fail, or are cut at any byte: noticed", len(faults) + cut, len(noticing + raised), 0
        ),
        *([delay] if scale >= MEASURED else []),
        Figure("R29", "a receiver hangs: the end later", 1, round(hanging.end_s - healthy.end_s, 2), 2 * slack, "s"),
        Figure("R29", "a receiver hangs: memory", prompts, max(0.0, round(more, 2)), 8, "MiB"),
    ]


def _costs(folder: Path, prompts: int) -> tuple[Cost, Cost]:
    with silent() as url:
        hanging = cost(folder / "hanging", url, prompts)
    with Receiver() as receiver:
        healthy = cost(folder / "healthy", receiver.url, prompts)
    return hanging, healthy
