"""The ledger of a fleet as those see it who watch: sums, what is under way, what failed last. Reads only."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tau.store.ledger import LedgerError, _quoted

RUNNING = """
select task, number, worker, claimed from attempt
where ended is null and not exists (select 1 from result where result.task = attempt.task) order by claimed
"""
SPENT = """
select coalesce(sum(cost), 0) + (select coalesce(sum(cost), 0) from result
where not exists (select 1 from attempt where attempt.task = result.task)) from attempt
"""


class RunningAttempt(NamedTuple):
    task: str
    number: int
    worker: str
    claimed: float


class PastAttempt(NamedTuple):
    """An attempt of a task; `ended` and `how` are None while it is under way."""

    number: int
    worker: str
    claimed: float
    ended: float | None
    how: str | None


class Totals(NamedTuple):
    """Sums over the final results; `cost` is that of all attempts."""

    cost: float
    tokens: int
    turns: int
    seconds: float


class LedgerView:
    """Raises LedgerError if the file is not a ledger."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._db = sqlite3.connect(f"file:{_quoted(path)}?mode=ro", uri=True, isolation_level=None, timeout=10)
            try:
                self._db.execute("select 1 from task limit 1")
            except BaseException:
                self._db.close()
                raise
        except sqlite3.OperationalError as error:  # such as one that is just being made
            raise LedgerError(f"{path}: {error}.") from None
        except sqlite3.DatabaseError as error:
            hint = f"`tau fleet repair {path.parent}` makes a new one from the results."
            raise LedgerError(f"{path}: {error}. {hint}") from None

    def counts(self) -> Mapping[str, int]:
        """How many tasks have which outcome; "" counts those without a result."""
        found = dict(self._db.execute("select outcome, count(*) from result group by outcome"))
        return {**found, "": self._db.execute("select count(*) from task").fetchone()[0] - sum(found.values())}

    def totals(self) -> Totals:
        sums = ", ".join(f"coalesce(sum({name}), 0)" for name in ("tokens", "turns", "seconds"))
        tokens, turns, seconds = self._db.execute(f"select {sums} from result").fetchone()
        return Totals(self._db.execute(SPENT).fetchone()[0], tokens, turns, seconds)

    def running(self) -> list[RunningAttempt]:
        """The attempts under way, the oldest first."""
        return [RunningAttempt(*row) for row in self._db.execute(RUNNING)]

    def ended_since(self, since: float) -> int:
        return int(self._db.execute("select count(*) from result where ended >= ?", (since,)).fetchone()[0])

    def last_results(self, outcomes: Sequence[str], count: int) -> list[bytes]:
        """The newest results with these outcomes, the newest first."""
        marks = ", ".join("?" * len(outcomes))
        query = f"select record from result where outcome in ({marks}) order by ended desc limit ?"
        return [record.encode() for (record,) in self._db.execute(query, (*outcomes, count))]

    def has_task(self, task: str) -> bool:
        return self._db.execute("select 1 from task where id=?", (task,)).fetchone() is not None

    def attempts(self, task: str) -> list[PastAttempt]:
        query = "select number, worker, claimed, ended, how from attempt where task=? order by number"
        return [PastAttempt(*row) for row in self._db.execute(query, (task,))]

    def result(self, task: str) -> bytes | None:
        row = self._db.execute("select record from result where task=?", (task,)).fetchone()
        return None if row is None else row[0].encode()

    def results(self) -> Iterator[bytes]:
        """The final results as JSON, in the order of the tasks."""
        query = "select record from result join task on task.id = result.task order by position"
        for (record,) in self._db.execute(query):
            yield record.encode()

    def waiting(self) -> list[str]:
        """The tasks without a result, in their order."""
        query = "select id from task where id not in (select task from result) order by position"
        return [id for (id,) in self._db.execute(query)]

    def copy_to(self, path: Path) -> None:
        """Write a compact copy to a file that does not exist. Raises LedgerError."""
        try:
            self._db.execute("vacuum into ?", (str(path),))
        except sqlite3.DatabaseError as error:
            raise LedgerError(f"{path}: {error}") from None

    def close(self) -> None:
        self._db.close()
