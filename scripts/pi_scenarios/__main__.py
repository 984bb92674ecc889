"""Play the scenarios of a protocol test suite against tau, and compare with what pi did.

    python scripts/pi_scenarios SUITE                      all releases of pi that the suite has recordings of
    python scripts/pi_scenarios SUITE --release 0.87.1     one of them
    python scripts/pi_scenarios SUITE --played FOLDER      keep the transcripts there; those that exist are not played
    python scripts/pi_scenarios SUITE --show               print every difference with both values

SUITE has `run_all.py`, `normalize.py`, and `golden/RELEASE/SCENARIO.jsonl`. Every difference must have its reason in
`differences.toml`, next to this file; docs/compatibility.md is made from it. The exit code is 1 if one has not.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from compare import Difference, differences

HERE = Path(__file__).parent
TABLE = HERE / "differences.toml"
TWIN = HERE.parent.parent / "tests" / "extensions" / "twin"  # extensions that do the same as those of the suite
JOBS = 2
SHOWN = 200


class Reason(NamedTuple):
    why: str
    explains: list[str]  # patterns of names of differences
    scenarios: dict[str, list[str]]  # by release
    anywhere: bool  # timing, which may differ in every scenario

    def covers(self, release: str, scenario: str, difference: Difference) -> bool:
        if not self.anywhere and scenario not in self.scenarios.get(release, ()):
            return False
        return matches(difference.name, self.explains)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python scripts/pi_scenarios", description="Compare tau with recordings of pi."
    )
    parser.add_argument("suite", type=Path, help="folder of the test suite")
    parser.add_argument("--release", action="append", help="a release of pi, such as 0.87.1; default: all")
    parser.add_argument("--recordings", type=Path, help="folder with recordings by release (SUITE/golden)")
    parser.add_argument("--played", type=Path, help="folder for the transcripts of tau")
    parser.add_argument("--only", nargs="*", help="patterns of names of scenarios")
    parser.add_argument("--show", action="store_true", help="print every difference")
    chosen = parser.parse_args(argv)
    table = tomllib.loads(TABLE.read_text())
    recordings = chosen.recordings or chosen.suite / "golden"
    sys.path.insert(0, str(chosen.suite))
    suite = import_module("normalize")
    fine = True
    with tempfile.TemporaryDirectory() as scratch:
        for release in chosen.release or sorted(path.name for path in recordings.iterdir()):
            played = (chosen.played or Path(scratch)) / release
            play(chosen.suite, release, table["releases"][release]["dialect"], played, chosen.only)
            fine &= compare(suite, recordings / release, played, reasons(table), only=chosen.only, show=chosen.show)
    return 0 if fine else 1


def reasons(table: dict[str, Any]) -> list[Reason]:
    """The reasons of the table; their scenarios are listed for one or several releases."""
    found = []
    for row in table["difference"]:
        scenarios: dict[str, list[str]] = {}
        for releases, names in row.get("scenarios", {}).items():
            for release in releases.split(", "):
                scenarios.setdefault(release, []).extend(names.split())
        found.append(Reason(row["why"], row.get("explains", []), scenarios, row.get("anywhere", False)))
    return found


def play(suite: Path, release: str, dialect: str, played: Path, only: Sequence[str] | None) -> None:
    program = Path(sys.executable).with_name("pi")
    command = [sys.executable, "run_all.py", "--argv", f"{program} --dialect {dialect}", "--as", release]
    command += ["--out", str(played.absolute()), "--twin", str(TWIN), "--jobs", str(JOBS), "--missing"]
    command += ["--only", *only] if only else []
    subprocess.run([sys.executable, "-B", *command[1:]], cwd=suite, check=True, stdout=subprocess.DEVNULL)


def compare(
    suite: ModuleType,
    recordings: Path,
    played: Path,
    known: Sequence[Reason],
    *,
    only: Sequence[str] | None,
    show: bool,
) -> bool:
    """Compare all scenarios of a release, print the result, and return True if every difference has a reason."""
    release = recordings.name
    paths = [path for path in sorted(recordings.glob("*.jsonl")) if matches(path.stem, only or ["*"])]
    found = {path.stem: list(differences(suite, records(path), records(played / path.name))) for path in paths}
    unexplained = 0
    for scenario, each in found.items():
        new = [one for one in each if not any(reason.covers(release, scenario, one) for reason in known)]
        unexplained += bool(new)
        report(scenario, each if show else new, show=show)
    same = sum(not each for each in found.values())
    listed = len(found) - same - unexplained
    print(
        f"{release}: {len(found)} scenarios, {same} the same, {listed} differ as listed, {unexplained} differ otherwise"
    )
    for reason in known:
        if gone := [name for name in reason.scenarios.get(release, ()) if is_gone(reason, release, name, found)]:
            print(f"  no longer different: {' '.join(gone)} ({reason.why[:60]})")
    return not unexplained


def report(scenario: str, found: Sequence[Difference], *, show: bool) -> None:
    for name in dict.fromkeys(one.name for one in found):
        print(f"  {scenario}: {name}{'' if show else ' has no reason'}")
        for one in (one for one in found if show and one.name == name):
            print(f"      pi:  {shortened(one.pi)}\n      tau: {shortened(one.tau)}")


def is_gone(reason: Reason, release: str, scenario: str, found: Mapping[str, Sequence[Difference]]) -> bool:
    """True if a reason no longer explains anything in a scenario that it lists."""
    if reason.anywhere or scenario not in found:
        return False
    return not any(reason.covers(release, scenario, one) for one in found[scenario])


def matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def shortened(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
