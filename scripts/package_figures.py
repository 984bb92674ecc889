"""Measures `tau list` with 50 packages, and what 10 packages of skills cost at the start of a session.

    PYTHONPATH=tests python scripts/package_figures.py [--runs N]

Prints medians of whole processes with their limits; starts alternate, so that other work on the machine affects both.
The time of the CPU depends less on it.
Nothing is fetched, and npm and Node are not on PATH.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from support.package_place import SKILL, TAU, write
from support.rpc_process import scripted, surroundings

LISTED, LIST_LIMIT_MS = 50, 200
INSTALLED, START_LIMIT_MS = 10, 10


def packages(folder: Path, number: int) -> dict[str, str]:
    """Install packages of skills, as tau would have, and return the environment of a program that has them."""
    env = surroundings(folder, {"packages": [f"npm:kit{at}@1.0.0" for at in range(number)]})
    for at in range(number):
        name = f"kit{at}"
        manifest = {"name": name, "version": "1.0.0", "pi": {"skills": ["skills"]}}
        place = folder / "agent" / "npm" / "node_modules" / name
        write(place, {"package.json": json.dumps(manifest), f"skills/{name}/SKILL.md": SKILL.format(name)})
    return env | {"PATH": str(TAU.parent)}


def timed(words: list[str], env: dict[str, str], cwd: Path) -> tuple[float, float]:
    """The time and the CPU time of a process, in ms."""
    begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, env=env, cwd=cwd, check=True, capture_output=True)
    taken, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return taken * 1000, (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def start(words: list[str], env: dict[str, str], cwd: Path) -> float:
    """The time until the answer to the first request."""
    begun = time.perf_counter()
    process = subprocess.Popen(words, env=env, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(b'{"type":"get_state","id":"1"}\n')
    process.stdin.flush()
    while b'"get_state"' not in (line := process.stdout.readline()):
        assert line, "it ended"
    taken = (time.perf_counter() - begun) * 1000
    process.stdin.close()
    process.wait()
    return taken


def verdict(holds: bool) -> str:
    return "holds" if holds else "DOES NOT HOLD"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env = packages(folder / "many", LISTED)
        words = [str(TAU), "list"]
        timed(words, env, folder)  # fills caches
        times, of_cpu = zip(*(timed(words, env, folder) for _ in range(runs)), strict=True)
        median, best, cpu = statistics.median(times), min(times), statistics.median(of_cpu)
        said = f"median {median:.0f} ms (best {best:.0f}, CPU {cpu:.0f}; at most {LIST_LIMIT_MS})"
        print(f"tau list of {LISTED} packages: {said}: {verdict(median <= LIST_LIMIT_MS)}", flush=True)

        homes = {number: packages(folder / str(number), number) for number in (0, INSTALLED)}
        found: dict[int, list[float]] = {number: [] for number in homes}
        for at in range(runs + 1):
            for number, env in homes.items():
                taken = start(scripted(folder), env, folder / str(number) / "work")
                found[number] += [taken] if at else []
        without, with_them = (statistics.median(times) for times in found.values())
        more = with_them - without
        said = (
            f"start with {INSTALLED} packages of skills: {with_them:.0f} ms, {more:+.1f} over none ({without:.0f} ms)"
        )
        best = min(found[INSTALLED]) - min(found[0])
        print(f"{said}, best {best:+.1f} (at most {START_LIMIT_MS}): {verdict(more <= START_LIMIT_MS)}")


if __name__ == "__main__":
    main()
