"""The table of rows that `make gate` prints: from a report of pytest and the figures to the state of each row."""

from __future__ import annotations

from pathlib import Path

from gate import rows
from gate.rows import Endings, Figures
from support.promise_catalogue import ROWS


def case(names: str, ending: str = "") -> str:
    properties = "".join(f'<property name="promise" value="{name}"/>' for name in names.split())
    return f"<testcase><properties>{properties}</properties>{ending}</testcase>"


def report(file: Path, *cases: str) -> Path:
    file.write_text(f"<testsuites><testsuite>{''.join(cases)}<testcase/></testsuite></testsuites>")
    return file


def test_a_row_is_held_if_its_tests_pass_and_its_figures_hold(tmp_path: Path) -> None:
    file = report(
        tmp_path / "tests.xml",
        case("T01 G15"),
        case("T01", '<failure message="x"/>'),
        case("T12"),
        case("N16", '<skipped message="no browser"/>'),
        case("N09"),
        case("N09", '<skipped message="no browser"/>'),
        case("", '<error message="the process of the test ended"/>'),
    )
    tests = rows.read_tests(file)
    assert (tests["T01"], tests[rows.UNKNOWN]) == (Endings(passed=1, failed=1), Endings(failed=1))
    found = {one.row.id: one for one in rows.states(tests, {"R30": Figures(7, 8), "R27": Figures(4, 4)})}
    assert list(found) == list(ROWS)
    assert {name: found[name].state for name in ("T01", "B07", "T12", "N09", "N16", "A01")} == {
        **{"T01": "BROKEN", "B07": "held", "T12": "OVER", "N09": "held"},
        **{"N16": "not tried", "A01": "not tried"},  # skipped, and not among the tests
    }
    assert (found["T12"].figures, found["N09"].figures) == ("R30 7/8", "R27 4/4")
    shown = list(rows.lines(found.values()))
    assert len(shown) == len(ROWS) + 1
    assert next(line for line in shown if line.startswith("N16")).endswith("not tried: no browser")
    assert next(line for line in shown if line.startswith("N09")).endswith("1, 1 skipped      R27 4/4    held")


def test_only_the_last_record_of_a_figure_counts() -> None:
    figure = {"goal": "R1", "limit": 0, "what": "losses"}
    kept = [{**figure, "found": 3}, {**figure, "what": "hangs", "found": 0}, {**figure, "found": 0}]
    assert rows.recorded(kept) == {"R1": Figures(2, 2)}
    assert rows.recorded(kept[:2]) == {"R1": Figures(1, 2)}
