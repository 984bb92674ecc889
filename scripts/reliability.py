"""docs/reliability.md: what is promised, which tests hold it, and the last figures of the gate.

    python scripts/reliability.py [--check]

The promises and the faults are in tests/support/promise_catalogue.py, the tests say with markers
which of them they hold, and the gate writes what it measured into
tests/gate/records.jsonl. With --check nothing is written; an old page is an error,
and so is a promise or a row that no test holds.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
TESTS = ROOT / "tests"
PAGE = ROOT / "docs" / "reliability.md"
RECORDS = TESTS / "gate" / "records.jsonl"

sys.path.insert(0, str(TESTS))  # the catalogue stands with the tests, which are no package

from support.promise_catalogue import GOALS, GOALS_ABSENT, PARTS, PROMISES, SAME  # noqa: E402
from support.promise_index import Marks, absent, gaps, holders, of, read  # noqa: E402

HEAD = """\
<!-- Made by `make docs` from tests/support/promise_catalogue.py, test markers and tests/gate/records.jsonl. -->

# Reliability

What you can rely on, what was thought of that could go wrong, and which test shows that it does not. A test says
itself what it holds, with a marker; this page is made from the markers, and the build fails when a promise or a row
has no test.

**How durable a session is.** An entry is written to its file before the event or the response that tells of it, and
synced to the disk in the background, within a second. So `kill -9`, a crash or the end of memory loses nothing that
you were told of. When the power goes, at most the last second is lost; what was before it is whole, and a line that
was half written costs itself only.

**How it is tested.** Wherever it can be, against the real program, over real pipes, files and processes, with a server
on this machine in the place of a provider. A fault is not tried once but at every place it can happen: at each byte
of a file, at each call to the system, after each event of a stream. What depends on chance is drawn from a seed,
which is told when it fails. The tests below run with every change (`make test`); the gate repeats the random ones
often enough to trust the figures at the end of this page.

What is *not* promised is in [Security](security.md#what-is-not-promised).
"""


def page(marks: Marks) -> str:
    return "\n".join([HEAD, *_promises(marks), "", *_rows(marks), *_figures()]) + "\n"


def _promises(marks: Marks) -> Iterator[str]:
    yield "## The promises"
    yield ""
    yield "| | About | Promise | Rows | Tests |"
    yield "|---|---|---|---|---|"
    for promise in PROMISES:
        rows = of(promise.id)
        tests = dict.fromkeys(test for row in rows for test in holders(marks, row.id))
        files = " ".join(_link(path) for path in dict.fromkeys(test.path for test in tests))
        names = " ".join(row.id for row in rows)
        reason = absent(promise.id)
        held = f"does not apply: {reason}" if reason else f"{len(tests)} in {files}" if tests else "to come"
        yield f"| {promise.id} | {promise.about} | {promise.says} | {names} | {held} |"


def _rows(marks: Marks) -> Iterator[str]:
    yield "## What can go wrong"
    for part in PARTS:
        yield from ("", f"### {part.title}", "", "| | What happens | What comes of it | Held by |", "|---|---|---|---|")
        for row in part.rows:
            tests = holders(marks, row.id)
            held = "<br>".join(f"{_link(test.path)}: {test.law}" for test in tests)
            reason = f"does not apply: {row.absent}" if row.absent else "to come"
            also = "".join(f", {other}" for other, first in SAME.items() if first == row.id)
            yield f"| {row.id}{also} | {row.fault} | {row.outcome} | {held or reason} |"


def _figures() -> Iterator[str]:
    records = _records()
    yield from ("", "## The last figures", "")
    yield "The last run has to be within its limit. Of all runs, counts are added up and of other figures the worst is"
    yield "shown, so there stands also what was found once and mended since."
    if not records:
        yield from ("", "None were taken yet.")
    yield from (
        "",
        "| | What is counted or measured | Limit | Last run | tried | at | All runs | tried |",
        "|---" * 8 + "|",
    )
    for goal, about in GOALS.items():
        runs = [record for record in records if record["goal"] == goal]
        if goal in GOALS_ABSENT:
            yield f"| {goal} | {about} | | does not apply: {GOALS_ABSENT[goal]} | | | | |"
        elif not runs:
            yield f"| {goal} | {about} | | | | | | |"
        for what in dict.fromkeys(run["what"] for run in runs):
            yield f"| {goal} | {what} | {' | '.join(_figure([run for run in runs if run['what'] == what]))} |"


def _figure(runs: list[dict[str, Any]]) -> Iterator[str]:
    last, unit = runs[-1], runs[-1].get("unit", "")
    found = [run["found"] for run in runs]
    yield _number(last["limit"], unit)
    yield _number(last["found"], unit)
    yield _number(last["tried"])
    yield str(last.get("commit", ""))[:8]
    yield _number(max(found) if unit else sum(found), unit)
    yield _number(sum(run["tried"] for run in runs))


def _number(value: float | None, unit: str = "") -> str:
    """Three digits of what was measured, all of what was counted; a limit may be none."""
    if value is None:
        return ""
    return f"{value:,.{0 if value % 1 == 0 or value >= 100 else 1 if value >= 10 else 2}f} {unit}".rstrip()


def _records() -> list[dict[str, Any]]:
    if not RECORDS.exists():
        return []
    return [json.loads(line) for line in RECORDS.read_text(encoding="utf-8").splitlines() if line.strip()]


def _link(path: str) -> str:
    return f"[{path.removesuffix('.py').replace('test_', '')}](../tests/{path})"


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print("usage: python scripts/reliability.py [--check]", file=sys.stderr)
        return 2
    marks = read()
    text = page(marks)
    if not arguments:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    wrong = list(gaps(marks))
    if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        wrong.append("docs/reliability.md is out of date: make docs")
    print(*wrong, sep="\n", end="\n" if wrong else "", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
