"""The ledger: a result once, attempts in order, and what is there after the process was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from tau.records.fleet import Result, Task
from tau.store.ledger import Ledger, LedgerError
from tau.store.ledger_view import LedgerView


def task(prompt: str = "x") -> Task:
    return Task(prompt=prompt)


def result(id: str, attempt: int = 1, outcome: str = "done", cost: float = 0.5) -> Result:
    return Result(id, attempt, outcome, "h", cost=cost)  # type: ignore[arg-type]


@contextmanager
def filled(folder: Path, count: int = 3) -> Iterator[Ledger]:
    with closing(Ledger(folder / "ledger.db")) as ledger:
        ledger.add([(f"t{number}", "h", task()) for number in range(count)], 1.0)
        yield ledger


def test_tasks_are_added_once_and_stay_in_order(tmp_path: Path) -> None:
    with filled(tmp_path) as ledger:
        assert ledger.add([("t1", "other", task("y")), ("new", "h", task())], 2.0) == 1
        assert [one.id for one in ledger.tasks()] == ["t0", "t1", "t2", "new"]
        assert ledger.tasks()[1].hash == "h"
        assert (tmp_path / "ledger.db").stat().st_mode & 0o777 == 0o600


@pytest.mark.promise("W03")
def test_a_task_has_one_result(tmp_path: Path) -> None:
    with filled(tmp_path) as ledger:
        ledger.claim([("t0", 1, "w"), ("t1", 1, "w")], 1.0)
        assert len(ledger.finish([result("t0"), result("t1", outcome="failed")], 2.0)) == 2
        assert ledger.finish([result("t0", 2, "failed")], 3.0) == []
        assert ledger.counts() == {"done": 1, "failed": 1, "": 1}
        assert [one.id for one in ledger.open_tasks()] == ["t2"]
        assert ledger.spent() == 1.0
        assert ledger.forget_results(["t1", "t2"]) == 1
        assert [one.id for one in ledger.open_tasks()] == ["t1", "t2"]


def test_attempts_are_numbered_and_open_ones_end_with_the_coordinator(tmp_path: Path) -> None:
    with filled(tmp_path) as ledger:
        ledger.claim([("t0", 1, "w"), ("t1", 1, "w")], 1.0)
        ledger.begin("t0", 1, 1.5)
        ledger.end_attempt("t0", 1, "lost", 2.0)
        ledger.claim([("t0", 2, "v")], 3.0)
        assert ledger.numbers() == {"t0": 2, "t1": 1}
        assert ledger.end_open_attempts("the coordinator ended", 4.0) == 2
        with pytest.raises(Exception, match="UNIQUE"):
            ledger.claim([("t0", 2, "x")], 5.0)


@pytest.mark.promise("W10")
def test_a_transaction_is_all_or_nothing(tmp_path: Path) -> None:
    with filled(tmp_path) as ledger:
        with pytest.raises(RuntimeError), ledger.transaction():
            ledger.finish([result("t0")], 1.0)
            raise RuntimeError
        assert ledger.counts() == {"": 3}


@pytest.mark.promise("W10")
def test_what_was_stored_is_there_after_kill_9(tmp_path: Path) -> None:
    program = f"""
        from pathlib import Path
        from tau.records.fleet import Result, Task
        from tau.store.ledger import Ledger
        ledger = Ledger(Path({str(tmp_path / "ledger.db")!r}))
        ledger.add([(f"t{{n}}", "h", Task(prompt="x")) for n in range(10000)], 1.0)
        for number in range(10000):
            ledger.finish([Result(f"t{{number}}", 1, "done", "h")], 1.0)
            print(number, flush=True)
    """
    argv = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(50)]
        os.kill(process.pid, signal.SIGKILL)
        said += process.stdout.readlines()
    acknowledged = int(said[-1]) if said[-1].endswith("\n") else int(said[-2])
    with closing(Ledger(tmp_path / "ledger.db")) as ledger:
        assert ledger.counts()["done"] >= acknowledged + 1


def test_damage_that_is_found_later_is_named(tmp_path: Path) -> None:
    with filled(tmp_path, 500):
        pass
    path = tmp_path / "ledger.db"
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 4096))
    with closing(Ledger(path)) as ledger, pytest.raises(LedgerError, match="tau fleet repair"), ledger.transaction():
        ledger.add([("new", "h", task())], 2.0)


@pytest.mark.promise("W08")
def test_a_damaged_or_newer_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(b"nonsense" * 1000)
    with pytest.raises(LedgerError, match="tau fleet repair"):
        Ledger(path)
    path.unlink()
    with closing(Ledger(path)) as ledger:
        ledger._db.execute("pragma user_version=99")
    with pytest.raises(LedgerError, match="version 99"):
        Ledger(path, read_only=True)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
@pytest.mark.parametrize("open_ledger", [Ledger, partial(Ledger, read_only=True), LedgerView])
def test_a_file_that_is_not_a_ledger_is_closed_at_once(tmp_path: Path, open_ledger: Callable[[Path], object]) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(b"nonsense" * 1000)
    with pytest.raises(LedgerError) as caught:
        open_ledger(path)
    assert caught.tb is not None  # whose frames keep the connection alive
    assert str(path) not in {os.readlink(one) for one in Path("/proc/self/fd").iterdir() if one.is_symlink()}
