"""The report: everything escaped, nothing from elsewhere, and the same numbers as the ledger."""

from __future__ import annotations

import re
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tau.fleet.folder import FleetFolder
from tau.fleet.report import figures
from tau.fleet.report.writer import report_page, write_report
from tau.records.fleet import CheckResult, Patch, Result, Seconds, Task, Usage
from tau.store.ledger import Ledger

HOSTILE = "</script><img src=x onerror=alert(1)>\"'&\x1b[31m\ud800"


def results() -> list[Result]:
    return [
        Result("a", 1, "solved", "h", text="fine", cost=0.25, turns=3, labels={"set": "x"}, model="m/1"),
        Result("b", 2, "unsolved", "h", check=CheckResult(1, HOSTILE), labels={"set": "y"}, model="m/1"),
        Result("c", 1, "failed", "h", error=HOSTILE, text=HOSTILE, labels={HOSTILE: HOSTILE}, model=HOSTILE),
        Result("d", 1, "done", "h", patch=Patch("patch.diff", "0", 1, 2, 3), seconds=Seconds(run=90.0), usage=Usage(7)),
    ]


class Page(HTMLParser):
    """Collects tags with their attributes, and checks that they are closed in order."""

    VOID = ("meta", "link", "input", "rect", "br", "img")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID or (tag == "rect" and not self.get_starttag_text().endswith("/>")):  # type: ignore[union-attr]
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


def folder(path: Path) -> FleetFolder:
    (path / "tasks" / "d" / "1").mkdir(parents=True)
    (path / "tasks" / "d" / "1" / "patch.diff").write_text("--- a\n+++ b\n+new <b>\n-old\n")
    return FleetFolder(path)


@pytest.mark.promise("W20")
def test_texts_are_escaped_and_the_page_is_well_formed(tmp_path: Path) -> None:
    text = report_page(results(), ["e", HOSTILE], folder(tmp_path))
    page = Page(text)
    assert "onerror=alert" not in re.sub(r"&lt;.*?&gt;", "", text)
    assert "\x1b" not in text and "\ud800" not in text
    assert [tag for tag, _ in page.tags if tag in ("img", "iframe", "object")] == []
    assert sum(tag == "script" for tag, _ in page.tags) == 1
    assert "<ins>+new &lt;b&gt;</ins>" in text and "<del>-old</del>" in text


@pytest.mark.promise("W20")
def test_nothing_is_loaded_from_elsewhere(tmp_path: Path) -> None:
    page = Page(report_page(results(), [], folder(tmp_path)))
    addresses = [value for _, given in page.tags for name in ("src", "href") if (value := given.get(name))]
    assert [one for one in addresses if not one.startswith(("data:", "#", "tasks/"))] == []
    (policy,) = [given["content"] for _, given in page.tags if given.get("http-equiv")]
    assert policy is not None and policy.startswith("default-src 'none'")


def test_the_report_has_the_numbers_of_the_ledger(tmp_path: Path) -> None:
    with closing(Ledger(tmp_path / "ledger.db")) as ledger:
        ledger.add([(id, "h", Task(prompt="x")) for id in "abcde"], 0.0)
        ledger.finish(results(), 1.0)
    path = write_report(folder(tmp_path))
    text = path.read_text()
    assert path == tmp_path / "report.html"
    assert path.stat().st_mode & 0o777 == 0o600
    assert "Without a result: 1" in text
    assert re.findall(r'<tr role="row" data-id="(.*?)" data-outcome="(.*?)"', text) == [
        *[("a", "solved"), ("b", "unsolved"), ("c", "failed"), ("d", "done")]
    ]
    assert "$0.25" in text and "+2 \u22123" in text


def test_groups_quantiles_and_times() -> None:
    found = figures.groups(results()[:2])
    assert list(found) == ["set"]
    assert [(group.name, group.tasks, group.good) for group in found["set"]] == [("x", 1, 1), ("y", 1, 0)]
    assert list(figures.outcomes(results())) == ["solved", "done", "failed", "unsolved"]
    assert [figures.quantile(list(range(1, 11)), share) for share in (0.5, 0.9, 1)] == [5, 9, 10]
    bins = figures.histogram([1.0, 10.0, 100.0, 100.0], 4)
    assert [one.tasks for one in bins] == [1, 0, 1, 2]
    assert figures.histogram([2.0, 2.0]) == []


def test_a_page_of_many_tasks_stays_small(tmp_path: Path) -> None:
    many = [Result(f"t{number}", 1, "done", "h", text="x" * 4000) for number in range(2100)]
    assert len(report_page(many, [], FleetFolder(tmp_path))) < 2_000_000
