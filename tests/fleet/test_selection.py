"""Which tasks a run works on; what is estimated and shown."""

from __future__ import annotations

import io
from contextlib import closing
from pathlib import Path

import pytest

from tau.core.fleet.estimate import duration, interval, time_left
from tau.core.fleet.tasks import NamedTask, defaults_problem, merge_defaults, read_tasks
from tau.errors import UsageError
from tau.fleet import display
from tau.fleet.progress import Progress
from tau.fleet.selection import Selection
from tau.fleet.snapshot import take_snapshot
from tau.fleet.task_files import load_defaults, load_tasks
from tau.records.fleet import CheckResult, Result, Task
from tau.store.ledger import Ledger
from tau.store.ledger_view import LedgerView


def named(*ids: str) -> list[NamedTask]:
    return [NamedTask(id, "h", Task(prompt="x")) for id in ids]


def ids(tasks: list[NamedTask]) -> list[str]:
    return [task.id for task in tasks]


def test_only_and_first_select_tasks_in_order() -> None:
    tasks = named("a-1", "b-1", "a-2", "c-1")
    assert ids(Selection().apply(tasks)) == ["a-1", "b-1", "a-2", "c-1"]
    assert ids(Selection(["a-*", "c-?"]).apply(tasks)) == ["a-1", "a-2", "c-1"]
    assert ids(Selection(["a-*"], first=1).apply(tasks)) == ["a-1"]


def test_a_seed_shuffles_always_the_same_and_first_takes_a_sample() -> None:
    tasks = named(*(f"t{number}" for number in range(50)))
    shuffled = ids(Selection(seed=7).apply(tasks))
    assert shuffled == ids(Selection(seed=7).apply(tasks)) != ids(tasks)
    assert sorted(shuffled) == sorted(ids(tasks))
    assert ids(Selection(seed=7, first=5).apply(tasks)) == shuffled[:5]
    assert ids(Selection(seed=8).apply(tasks)) != shuffled


def test_defaults_fill_in_what_a_line_lacks() -> None:
    usual = {"model": "m", "budget": {"maxTurns": 5, "maxCost": 1.0}, "promptFile": "p.txt"}
    assert merge_defaults(usual, {"prompt": "x", "budget": {"maxCost": 2.0}}) == {
        "model": "m",
        "prompt": "x",
        "budget": {"maxTurns": 5, "maxCost": 2.0},
    }
    assert defaults_problem({"base": "main"}) is None
    assert "modell" in str(defaults_problem({"modell": "x"}))
    assert "budget.maxTurns" in str(defaults_problem({"budget": {"maxTurns": 0}}))


def test_a_mistake_in_the_defaults_names_file_and_field(tmp_path: Path) -> None:
    path = tmp_path / "defaults.json"
    for text, words in (
        ('{"modell": 1}', "modell"),
        ('{"id": "a"}', "id:"),
        ("[]", "not an object"),
        ("{", "not JSON"),
    ):
        path.write_text(text)
        with pytest.raises(UsageError, match=words) as raised:
            load_defaults(path)
        assert str(path) in str(raised.value)
    with pytest.raises(UsageError, match="No such file"):
        load_defaults(tmp_path / "nowhere.json")


def test_paths_of_a_task_file_are_relative_to_it(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(
        '{"id":"a","promptFile":"p.txt","repo":"../r","attachments":["x.png"],"extensions":["e.py","npm:y"]}\n'
        '{"id":"b","prompt":"x","repo":"https://host/r.git"}\n'
    )
    first, second = (task.task for task in load_tasks(path, {}))
    assert (first.prompt_file, first.repo) == (str(tmp_path / "p.txt"), str(tmp_path.parent / "r"))
    assert (first.attachments, first.extensions) == ([str(tmp_path / "x.png")], [str(tmp_path / "e.py"), "npm:y"])
    assert second.repo == "https://host/r.git"


@pytest.mark.promise("W13")
@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"prompt":"x","repo":"ext::sh -c id"}', "repo: ext"),
        (b'{"prompt":"x","repo":"fd://3"}', "repo: fd"),
        (b'{"prompt":"x","repo":""}', "repo: is empty"),
        (b'{"prompt":"x","repo":"https://h/r","workspace":"copy"}', "repo: workspace copy"),
        (b'{"prompt":"x","output":{"files":["../../etc/*"]}}', "output.files"),
        (b'{"prompt":"x","output":{"files":["/etc/*"]}}', "output.files"),
        (b'{"prompt":"x","output":{"files":[]}}', "output.files"),
        (b'{"prompt":"x","output":{}}', "output.files"),
        (b'{"prompt":"x","container":{"image":"i"}}', "container:"),
        (b'{"prompt":"x","id":"a\\u0000b"}', "id:"),
    ],
)
def test_hostile_lines_are_refused_by_field(line: bytes, words: str) -> None:
    tasks, mistakes = read_tasks([line], {})
    assert (tasks, words in str(mistakes[0])) == ([], True)


def test_two_tasks_in_place_in_one_folder_are_refused() -> None:
    line = b'{"id":"%s","prompt":"x","repo":"r%s","workspace":"in-place"}'
    _, mistakes = read_tasks([line % (b"a", b""), line % (b"b", b"/"), line % (b"c", b"2")], {})
    assert list(map(str, mistakes)) == ["line 2: workspace: in-place, and line 1 works in r/ too"]


@pytest.mark.promise("W13")
def test_many_mistakes_are_counted_and_a_gigantic_line_is_not_read_into_memory(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    with path.open("wb") as file:
        file.truncate(1 << 25)  # a line of 32 MB, of zeros
        file.seek(0, 2)
        file.write(b"\n" + b'{"colour":1}\n' * 20_000)
    with pytest.raises(UsageError) as raised:
        load_tasks(path, {})
    lines = str(raised.value).splitlines()
    assert lines[0] == f"{path}:1: longer than 1,048,576 bytes"
    assert lines[1].startswith(f"{path}:2: ")
    assert lines[-1] == "… and 19,981 more"


def test_the_time_left_has_a_spread() -> None:
    assert time_left(0, 5, 10.0) == (0, 0, 0)
    assert time_left(5, 0, 10.0) is None
    few, many = time_left(100, 4, 40.0), time_left(100, 400, 4000.0)
    assert few is not None and many is not None
    assert few.middle == many.middle == 1000
    assert few.low < many.low < 1000 < many.high < few.high


def test_times_are_written_for_people() -> None:
    assert [duration(seconds) for seconds in (5, 125, 600, 12000, 500_000)] == [
        *("5 s", "2.1 min", "10 min", "3 h 20 min", "5.8 days")
    ]
    estimate = time_left(100, 100, 600.0)
    assert estimate is not None
    assert interval(estimate) == "8.1 to 12 min"


def test_a_snapshot_says_what_happens(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with closing(Ledger(path)) as ledger, closing(LedgerView(path)) as view:
        ledger.add([(f"t{number}", "h", Task(prompt="x")) for number in range(10)], 0.0)
        ledger.claim([(f"t{number}", 1, "w1") for number in range(5)], 100.0)
        ledger.finish(
            [Result("t0", 1, "solved", "h", cost=0.5), Result("t1", 1, "failed", "h", error="no\nmore")], 110.0
        )
        taken = take_snapshot(view, 120.0, 100.0)
        assert (taken.total, taken.ended, taken.running, taken.waiting, taken.failed) == (10, 2, 3, 5, 1)
        assert taken.per_second == 0.1
        assert display.line(taken).startswith("2 of 10, 1 solved, 1 failed, 3 running, $0.50, 360 tasks/h, ")
        shown = "\n".join(display.table(taken))
        assert "t2, attempt 1, w1" in shown
        assert "    failed  t1: no\n" in shown + "\n"
        assert take_snapshot(view, 120.0, 100.0, alive=False).waiting == 8


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_redrawn_at_a_terminal_and_a_line_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    path = tmp_path / "ledger.db"
    with closing(Ledger(path)) as ledger, closing(LedgerView(path)) as view:
        ledger.add([("t0", "h", Task(prompt="x")), ("t1", "h", Task(prompt="x"))], 0.0)
        ledger.finish([Result("t0", 1, "failed", "h", error="\x1b[2Jhidden")], 1.0)
        screen, file = Screen(), io.StringIO()
        for to in (screen, file):
            progress = Progress(lambda: take_snapshot(view, 10.0, 0.0), to, watch=True)
            progress.show()
            progress.show()
            progress.end()
        assert file.getvalue().splitlines() == ["1 of 2, 1 failed, 360 tasks/h, 3 to 33 s left"] * 2
        first, second, end = screen.getvalue().split("\x1b[10A\r\x1b[J")
        assert (first, end) == (second, "")
        assert first.splitlines()[0] == "█" * 15 + "░" * 15 + " 1 of 2 (50%)"
        assert "\x1b" not in first and "hidden" in first


def test_the_table_of_a_large_fleet_lists_what_needs_a_look() -> None:
    results = [Result(f"t{number}", 1, "done", "h", text="fine") for number in range(100)]
    assert list(display.results_table(results)) == []
    results[7] = Result("t7", 1, "unsolved", "h", check=CheckResult(3, "out"))
    lines = list(display.results_table(results))
    assert (len(lines), lines[1].endswith("the check ended with 3")) == (2, True)
    assert len(list(display.results_table(results[:30]))) == 31
