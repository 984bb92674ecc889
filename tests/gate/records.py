"""What was measured, kept: a release may be tried in many runs, and what counts is their sum."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from gate.figure import Figure

FILE = Path(__file__).with_name("records.jsonl")

Key = tuple[str, str]

# How often a release has to have tried: by goal, and by a word where a goal has several figures. The other goals ask
# no more of a release than of a change.
RELEASE: dict[Key, int] = {
    ("R1", ""): 10_000,
    ("R2", ""): 150_000,
    ("R4", "lines that crash"): 1_000_000,
    ("R5", "sessions"): 200_000,
    ("R5", "streams"): 200_000,
    ("R16", ""): 1_000_000,
}


class Sum(NamedTuple):
    tried: int
    found: float
    runs: int


def keep(file: Path, figures: Iterable[Figure], *, scale: float, seed: int) -> None:
    about = {"seed": seed, "scale": scale, "commit": commit(), "day": time.strftime("%Y-%m-%d")}
    with file.open("a") as out:
        for figure in figures:
            out.write(json.dumps({**figure._asdict(), **about}) + "\n")


def commit() -> str:
    """What was measured; a + says that there was more than what is committed."""
    here = FILE.parent
    try:
        name = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=here, capture_output=True, text=True)
        changed = subprocess.run(["git", "status", "--porcelain", "../../src"], cwd=here, capture_output=True)
    except FileNotFoundError:
        return "unknown"
    return name.stdout.strip() + ("+" if changed.stdout else "")


def read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def sums(records: Iterable[dict[str, Any]]) -> dict[Key, Sum]:
    """Tried and found, over all runs. The same seed again tries nothing new, so it counts once: the last time."""
    last = {(one["goal"], one["what"], one["seed"], one["scale"]): one for one in records}
    total = dict.fromkeys(RELEASE, Sum(0, 0, 0))
    for (goal, what, _, _), one in last.items():
        for key in RELEASE:
            if key[0] == goal and key[1] in what:
                before = total[key]
                total[key] = Sum(before.tried + one["tried"], before.found + one["found"], before.runs + 1)
    return total


def table(records: Iterable[dict[str, Any]]) -> tuple[list[list[str]], bool]:
    """Rows for people, and whether every figure of a release is reached."""
    rows, all_reached = [], True
    for (goal, what), (tried, found, runs) in sums(records).items():
        wanted = RELEASE[goal, what]
        reached = tried >= wanted and found == 0
        all_reached = all_reached and reached
        word = "reached" if reached else "OVER" if found else f"{tried / wanted:.0%}"
        rows.append([goal, what, f"{tried:,}", f"{wanted:,}", f"{found:g}", str(runs), word])
    return rows, all_reached
