"""Measure tau, and real pi beside it: `make bench`, `make bench PEERS="0.73.1 0.87.1"`.

    make bench ARGS="--only session --rounds 3"
    make bench ARGS="--json results.json --compare benchmarks/baseline.json"

No target fails the run: a machine with something else to do is no fair judge.
What each job does is told in docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import platform
import sys
import tempfile
from pathlib import Path

from benchmarks.job import Job, Place, Result, run
from benchmarks.jobs import JOBS
from benchmarks.mock import Mock
from benchmarks.peers import peer, tau
from benchmarks.table import job_table


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Measure tau, and real pi beside it, in one run. Ratios count, seconds do not.",
        epilog="Jobs: " + ", ".join(JOBS),
    )
    parser.add_argument("--only", nargs="+", metavar="JOB", help="these jobs; * stands for anything")
    parser.add_argument("--peers", nargs="*", default=[], metavar="VERSION", help="versions of real pi, from npm")
    parser.add_argument("--rounds", type=int, default=3, help="how often everyone is measured (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="one round, fewer pieces and commands")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there too")
    parser.add_argument("--list", action="store_true", help="what the jobs are")
    return parser.parse_args()


def chosen(patterns: list[str] | None) -> list[Job]:
    if patterns is None:
        return list(JOBS.values())
    if unknown := [one for one in patterns if not fnmatch.filter(JOBS, one)]:
        sys.exit(f"There is no job {unknown[0]}. There are: {', '.join(JOBS)}")
    return [job for name, job in JOBS.items() if any(fnmatch.fnmatch(name, one) for one in patterns)]


def main() -> None:
    given = arguments()
    jobs = chosen(given.only)
    if given.list:
        print("\n".join(f"{job.name:18}{job.about}" for job in jobs))
        return
    contenders = [tau(), *map(peer, given.peers)]
    print(f"Python {platform.python_version()}, {os.cpu_count()} processors, {platform.system()}\n", flush=True)
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="tau-bench-") as folder, Mock() as mock:
        place = Place(mock, Path(folder))
        for job in jobs:
            results.append(run(job, place, contenders, 1 if given.quick else given.rounds))
            print(job_table(results[-1]) + "\n", flush=True)
    if given.json:
        given.json.write_text(json.dumps({}, indent=2) + "\n")


if __name__ == "__main__":
    main()
