"""Fold the streams of many sessions in the page's JavaScript and in Python: both must know the same.

    python tests/long/page_fold.py [STREAMS] [--seed SEED]

A fifth of the streams are recorded from runs of a host, the others are generated from all kinds of events. Needs
Chromium.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from export.chromium import Browser, chromium
from support.page_runs import record_run
from support.page_script import disagreements
from support.page_streams import Generator, Recording

STREAMS = 1000


async def recordings(folder: Path, count: int, seed: int) -> list[Recording]:
    runs = [await record_run(folder / f"run{at}", seed + at) for at in range(count // 5)]
    return [*runs, *(Generator(seed + at).recording(80) for at in range(count - len(runs)))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("streams", type=int, nargs="?", default=STREAMS)
    parser.add_argument("--seed", type=int, default=1000)
    given = parser.parse_args()
    if chromium() is None:
        print("skipped: there is no Chromium here")
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = asyncio.run(recordings(folder, given.streams, given.seed))
        browser = Browser(folder)
        try:
            found = disagreements(browser, made)
        finally:
            browser.close()
    records, checks = sum(len(one.records) for one in made), sum(len(one.checks) for one in made)
    print(f"{len(made)} streams, {records} records, {checks} comparisons, {len(found)} disagreements")
    print("\n".join(found[:5]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
