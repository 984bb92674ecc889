"""R20: nothing that a hostile repository tries works without trust."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from gate.figure import Figure
from gate.portion import portion
from support.hostile_repos import TRICKS, a_place


def measure(scale: float, seed: int) -> list[Figure]:
    names = portion(list(TRICKS), scale, seed)
    honoured = sum(bool(traces(name, trusted=False)) for name in names)
    # A check that sees nothing proves nothing: where the same is done by the user, it must be seen.
    checked = [name for name in names if TRICKS[name].works is not None]
    unseen = sum(TRICKS[name].by not in traces(name, trusted=True) for name in checked)
    return [
        Figure("R20", "tricks of a repository that worked without trust", len(names), honoured, 0),
        Figure("R20", "tricks that left no trace where they should work", len(checked), unseen, 0),
    ]


def traces(name: str, *, trusted: bool) -> set[str]:
    trick = TRICKS[name]
    with tempfile.TemporaryDirectory(prefix="tau-gate-") as folder, a_place(Path(folder)) as place:
        trick.play(place)
        if trusted and trick.works is not None:
            trick.works(place)
        found = place.play()
    if found and not trusted:
        print(f"R20, {name}: {found}", file=sys.stderr)
    return found
