"""Measure tau, and real pi beside it: `make bench`, `make bench PEERS="0.73.1 0.87.1"`.

    make bench ARGS="--only session --rounds 3"
    make bench ARGS="--json results.json --compare benchmarks/baseline.json"

No target fails the run, and no comparison unless --gate asks for it: a machine
with something else to do is no fair judge. What is recorded (--json, --keep) is measured
on a quiet machine, or the run ends. docs/benchmarks.md describes the jobs.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks import scaling
from benchmarks.job import Job, Place, Result, run
from benchmarks.jobs import JOBS
from benchmarks.measure import orphans
from benchmarks.mock import Mock
from benchmarks.peers import peer, tau
from benchmarks.quiet import TRIAL, NotQuiet, undisturbed, wait_for_quiet
from benchmarks.results import about, compared, keep, told, write
from benchmarks.table import goal_table, job_table, summary

ALLOWED = 20.0  # percent
NOT_QUIET = 3  # exit code


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Measure tau, and real pi beside it, in one run. Ratios count, seconds do not.",
        epilog="Jobs: " + ", ".join(JOBS),
    )
    parser.add_argument("--only", nargs="+", metavar="JOB", help="these jobs; * stands for anything")
    parser.add_argument("--peers", nargs="*", default=[], metavar="VERSION", help="versions of real pi, from npm")
    parser.add_argument("--rounds", type=int, default=9, help="how often everyone is measured (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="one round, and none of the jobs that take minutes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there too")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="tell what changed since that result of tau")
    parser.add_argument("--gate", type=float, metavar="PERCENT", help="fail if --compare finds more than that")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write or update what later runs compare with")
    parser.add_argument("--laws", action="store_true", help="the scaling laws too, although only some jobs are done")
    parser.add_argument("--trial", action="store_true", help="write --json although other programs run, and mark it")
    parser.add_argument("--list", action="store_true", help="what the jobs are")
    return parser.parse_args()


def chosen(patterns: list[str] | None, quick: bool) -> list[Job]:
    if patterns is None:
        return [job for job in JOBS.values() if not (quick and job.slow)]
    if unknown := [one for one in patterns if not fnmatch.filter(JOBS, one)]:
        sys.exit(f"There is no job {unknown[0]}. There are: {', '.join(JOBS)}")
    return [job for name, job in JOBS.items() if any(fnmatch.fnmatch(name, one) for one in patterns)]


def measured(given: argparse.Namespace, jobs: Sequence[Job], place: Place, results: list[Result]) -> None:
    """Add a result for each job. Raises NotQuiet if something is to be recorded while other programs run."""
    contenders = [tau(), *map(peer, given.peers)]
    for job in jobs:
        measure = partial(run, job, place, contenders, 1 if given.quick else given.rounds)
        is_recorded = (given.json or given.keep) and not given.trial
        results.append(undisturbed(measure, lambda: place.mock.cpu() + orphans()) if is_recorded else measure())
        print(job_table(results[-1]) + "\n", flush=True)
        if given.json:  # after each, so that a run that is stopped leaves what it had
            write(given.json, results, TRIAL if given.trial else "")


def scaled(
    given: argparse.Namespace, place: Place, results: Sequence[Result]
) -> tuple[Sequence[scaling.Found], Sequence[scaling.Rate]] | None:
    """The scaling laws, which belong to a whole run, or to one that asks for them by --laws."""
    if not given.laws and (given.only or given.quick):
        return None
    if given.json and not given.trial:
        wait_for_quiet(lambda: place.mock.cpu() + orphans())
    found = scaling.everything(place, list(scaling.LAWS))
    if given.json:
        write(given.json, results, TRIAL if given.trial else "", scaling.told(*found))
    return found


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that nothing is left behind
    given = arguments()
    jobs = chosen(given.only, given.quick)
    if given.list:
        print("\n".join(f"{job.name:26}{job.about}" for job in jobs))
        return 0
    if given.trial and given.keep:
        sys.exit("A trial is not kept: later results would be compared with it.")
    print(", ".join(f"{name} {value}" for name, value in about().items()), flush=True)
    if (load := os.getloadavg()[0]) > 1:
        print(f"{load:.1f} processors are at work already: trust processor time and memory, not the clock", flush=True)
    if given.trial:
        print(f"This is {TRIAL}.")
    print()
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="tau-bench-") as folder, Mock() as mock:
        place = Place(mock, Path(folder))
        try:
            measured(given, jobs, place, results)
            laws = scaled(given, place, results)
        except NotQuiet as why:
            print(f"\n{summary(results)}\n\n{why}")
            return NOT_QUIET
    print(summary(results))
    if laws:
        print("\n" + scaling.table(laws[0]))
    print("\n" + goal_table({result.job.name: told(result) for result in results}))
    worse = False
    if given.compare:
        text, worse = compared(given.compare, results, 1 + (given.gate or ALLOWED) / 100)
        print(f"\n{text}")
    if given.keep:
        keep(given.keep, results)
    return int(worse and given.gate is not None)


if __name__ == "__main__":
    sys.exit(main())
