"""Measure tau against floors that are measured in the same run: `make bench`.

    make bench ARGS="--json results.json"
    make bench ARGS="--quick --peer 'node path/to/cli.js'"

A ratio says how often tau needs what the floor needs. No ratio here fails the
run: a machine with something else to do is no fair judge. Those that were
promised are shown beside their limit.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from jobs import PI, Bench, Row

HEAD = ("job", "tau", "floor", "", "ratio", "")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Measure tau against floors that are measured in the same run. Ratios count, seconds do not."
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there too")
    parser.add_argument("--quick", action="store_true", help="a tenth of the starts and of the commands")
    parser.add_argument("--starts", type=int, default=21, help="how often programs are started (%(default)s)")
    parser.add_argument("--pieces", type=int, default=5_000, help="pieces of a streamed answer (%(default)s)")
    parser.add_argument("--trips", type=int, default=100_000, help="get_state commands (%(default)s)")
    parser.add_argument(
        "--peer",
        default=os.environ.get("PEER", ""),
        metavar="COMMAND",
        help="command line of real pi, to start and rest beside tau (or the variable PEER)",
    )
    return parser.parse_args()


def bench(given: argparse.Namespace, home: Path) -> Bench:
    part = 10 if given.quick else 1
    return Bench(
        home,
        starts=max(3, given.starts // part),
        pieces=max(2, given.pieces),
        trips=max(1, given.trips // part),
        peer=shlex.split(given.peer),
    )


def cells(row: Row) -> tuple[str, ...]:
    limit = "" if row.limit is None else f"{'under' if row.ratio < row.limit else 'OVER'} {row.limit}"
    return (
        row.job,
        f"{row.value:.1f} {row.unit}",
        f"{row.floor:.1f}",
        row.floor_is,
        f"{row.ratio:.2f}",
        "; ".join(filter(None, (limit, row.note))),
    )


def table(rows: list[Row]) -> str:
    lines = [HEAD, *map(cells, rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(HEAD))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def main() -> None:
    given = arguments()
    if not Path(PI).exists():
        sys.exit(f"There is no {PI}. Run this by `make bench`, which installs it.")
    rows = []
    with tempfile.TemporaryDirectory() as home:
        todo = bench(given, Path(home))
        todo.prepare()
        for row in todo.rows():
            rows.append(row)
            if sys.stderr.isatty():
                print(f"{row.job} ...", file=sys.stderr, flush=True)
    print(f"Python {platform.python_version()}, {os.cpu_count()} processors, {platform.system()}\n\n{table(rows)}")
    if given.json:
        results = [{**asdict(row), "ratio": row.ratio} for row in rows]
        about = {"python": platform.python_version(), "processors": os.cpu_count(), "system": platform.system()}
        given.json.write_text(json.dumps({**about, "rows": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
