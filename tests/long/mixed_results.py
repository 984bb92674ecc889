"""What tests/long/mixed_load.py has found in all of its runs, in a file, and the figures of it."""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path
from typing import Any

from gate import records
from gate.figure import Figure

FILE = Path(__file__).with_name("mixed_load.json")
SHOWN = 20
POOL = min(32, (os.cpu_count() or 1) + 4)  # threads that asyncio starts for blocking work, and keeps
Json = dict[str, Any]


class State:
    """What all segments found, by lane. Several runs may add to the same file, one after another or at once.

    A failure that was corrected moves by hand from `wrong` to `corrected`, with a few words of its cause.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.content = self._read()

    def _read(self) -> Json:
        empty: Json = {"seconds": 0.0, "runs": [], "lanes": {}}
        return json.loads(self._path.read_text()) if self._path.exists() else empty

    def add(self, seconds: float, lanes: dict[str, Json]) -> None:
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            self.content = self._read()
            self._count(seconds, lanes)
            draft = self._path.with_suffix(".new")
            draft.write_text(json.dumps(self.content, indent=1))
            draft.replace(self._path)
        finally:
            os.close(folder)

    def _count(self, seconds: float, lanes: dict[str, Json]) -> None:
        self.content["seconds"] += seconds
        self.content["runs"].append(
            {"at": time.strftime("%Y-%m-%d %H:%M:%S"), "seconds": round(seconds), "commit": records.commit()}
        )
        for name, found in lanes.items():
            known = self.content["lanes"].setdefault(name, {})
            for what, value in found.items():
                if what == "slowest":
                    before = known.get(what, {})
                    known[what] = {one: max(before.get(one, 0.0), value.get(one, 0.0)) for one in {*before, *value}}
                elif what.startswith("more_"):
                    known[what] = max(known.get(what, 0), value)
                else:
                    known[what] = known[what] + value if what in known else value

    def figures(self) -> list[Figure]:
        made: list[Figure] = []
        for name, found in self.content["lanes"].items():
            prompts = found["grown_prompts"]
            per_prompt = max(0.0, found["grown_kib"] / prompts) if prompts else 0.0
            made += [
                Figure(name, "acknowledged entries lost", found["acknowledged"], len(found["lost"]), 0),
                Figure(name, "answers later than 5 s", found["responses"], len(found["late"]), 0),
                Figure(name, "memory for each prompt", prompts, round(per_prompt, 3), 1.0, "KiB"),
                Figure(name, "descriptors left", found["rests"], found["more_descriptors"], 0),
                Figure(name, "threads left", found["rests"], found["more_threads"], POOL),
                Figure(name, "processes left", found["kills"] + found["rests"], len(found["left"]), 0),
                Figure(name, "other failures", found["prompts"], len(found["wrong"]), 0),
            ]
        return made


def table(state: State) -> str:
    lines = [f"{'':7} {'':28} {'tried':>10} {'found':>12} {'at most':>8}"]
    for figure in state.figures():
        verdict = "" if figure.holds else "  TOO MUCH"
        found = f"{figure.found:g} {figure.unit}".strip()
        lines.append(f"{figure.goal:7} {figure.what:28} {figure.tried:>10,} {found:>12} {figure.limit:>8g}{verdict}")
    for name, found in state.content["lanes"].items():
        for what in ("lost", "late", "left", "wrong", "excused"):
            lines += [f"  {name} {what}: {one[:300]}" for one in found[what][:SHOWN]]
        lines += [f"  {name} found and corrected: {one[:300]}" for one in found.get("corrected", ())]
        slowest = sorted(found["slowest"].items(), key=lambda item: -item[1])[:4]
        lines.append(f"  {name} slowest: {', '.join(f'{what} {seconds:.2f} s' for what, seconds in slowest)}")
    return "\n".join(lines)
