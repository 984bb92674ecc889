"""scripts/pi_scenarios: a difference from pi that its list does not name is a failure."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "pi_scenarios"
# What the script needs of a suite: how an event is called, what it says, and where two values differ.
NORMALIZE = """
ADDITIONS = {"agent_settled"}

def kind(record):
    return record["line"]["type"] if record["dir"] == "out" else record["dir"].upper()

def payload(record):
    return record.get("line", record)

def jdiff(a, b, path, found):
    if isinstance(a, dict) and isinstance(b, dict):
        for name in {**a, **b}:
            if name not in a:
                found.append((f"{path}.{name}", "extra in B", None, b[name]))
            else:
                jdiff(a[name], b.get(name), f"{path}.{name}", found)
    elif a != b:
        found.append((path, "value", a, b))
"""


def sent(type: str, **fields: Any) -> dict[str, Any]:
    return {"dir": "out", "line": {"type": type, **fields}}


START, END = sent("turn_start"), sent("turn_end", errorMessage="no")


def compared(folder: Path, scenario: str, pi: list[Any], tau: list[Any]) -> subprocess.CompletedProcess[str]:
    """The result of a suite with one scenario, recorded with pi 0.87.1, and played already."""
    for place, records in (("golden/0.87.1", pi), ("played/0.87.1", tau)):
        (folder / place).mkdir(parents=True)
        lines = "".join(f"{json.dumps(record)}\n" for record in records)
        (folder / place / f"{scenario}.jsonl").write_text(lines)
    (folder / "normalize.py").write_text(NORMALIZE)
    (folder / "run_all.py").write_text("")
    command = [sys.executable, "-B", SCRIPT, folder, "--played", folder / "played"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.process
@pytest.mark.parametrize(
    "tau",
    [
        [START, END],
        [START, sent("turn_end", errorMessage="no", extra=1)],
        [START, END, sent("agent_settled")],
    ],
    ids=["the same", "a field that is added", "an event that is added"],
)
def test_the_same_and_more_is_no_difference(tmp_path: Path, tau: list[Any]) -> None:
    done = compared(tmp_path, "some", [START, END], tau)
    assert (done.returncode, done.stdout) == (
        0,
        "0.87.1: 1 scenarios, 1 the same, 0 differ as listed, 0 differ otherwise\n",
    )


@pytest.mark.process
@pytest.mark.parametrize(
    ("tau", "said"),
    [
        ([START, sent("turn_end", errorMessage="yes")], "turn_end errorMessage"),
        ([START], "- turn_end"),
        ([START, START, END], "+ turn_start"),
        ([END, START], "moved turn_"),
    ],
)
def test_a_difference_that_is_not_listed_is_a_failure(tmp_path: Path, tau: list[Any], said: str) -> None:
    done = compared(tmp_path, "some", [START, END], tau)
    assert done.returncode == 1
    assert re.search(rf"^  some: {re.escape(said)}.* has no reason$", done.stdout, re.MULTILINE)
    assert "0 the same, 0 differ as listed, 1 differ otherwise" in done.stdout


@pytest.mark.process
def test_a_listed_difference_is_explained_only_in_its_scenario_and_event(tmp_path: Path) -> None:
    pi, tau = sent("auto_retry_start", errorMessage="a"), sent("auto_retry_start", errorMessage="b")
    assert compared(tmp_path / "1", "retry_event", [pi], [tau]).returncode == 0
    assert compared(tmp_path / "2", "retry_529_default", [pi], [tau]).returncode == 1
    assert compared(tmp_path / "3", "retry_event", [pi], [tau, START]).returncode == 1


@pytest.mark.unit
def test_every_row_of_the_list_has_a_reason_and_a_place() -> None:
    table = tomllib.loads((SCRIPT / "differences.toml").read_text())
    for row in table["difference"]:
        assert row["why"] and row["section"] in ("intended", "other")
        assert ("where" in row) != ("scenarios" in row), row["why"]
        assert ("scenarios" in row) == bool(row.get("explains")), row["why"]
        assert {release for key in row.get("scenarios", {}) for release in key.split(", ")} <= set(table["releases"])
