"""The ledger of a fleet: one SQLite file, written by one process. What is not in it did not happen.

Tables: `task` (what was asked), `attempt` (each with its number, worker and end), `result` (the final result of each
task, once), `event` (what happened to the fleet). They are documented in docs/fleet.md, for those who read the file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tau.records.base import encode
from tau.records.fleet import Result, Task

VERSION = 1
FULL = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY")
DAMAGED = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
SCHEMA = """
create table task (
    id text primary key, position integer not null, hash text not null, line text not null, added real not null
) without rowid;
create table attempt (
    task text not null, number integer not null, worker text not null, claimed real not null, begun real,
    ended real, how text, cost real not null default 0, primary key (task, number)
) without rowid;
create table result (
    task text primary key, attempt integer not null, outcome text not null, cost real not null, turns integer not null,
    tokens integer not null, seconds real not null, ended real not null, record text not null
) without rowid;
create table event (at real not null, kind text not null, about text not null);
create index attempt_open on attempt (task) where ended is null;
"""


class LedgerError(Exception):
    """The ledger cannot be used, and why."""


class LedgerFull(LedgerError):
    """The disk is full, or cannot be written: nothing of the transaction was stored, and it may succeed later."""


class StoredTask(NamedTuple):
    id: str
    hash: str
    line: bytes


class Ledger:
    """Times are seconds since the epoch. Every method is one transaction, unless it is called in `transaction`."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self._path = path
        try:
            where = f"file:{_quoted(path)}?mode=ro" if read_only else f"file:{_quoted(path)}"
            self._db = sqlite3.connect(where, uri=True, isolation_level=None, timeout=10)
            try:
                self._prepare(read_only=read_only)
            except BaseException:
                self._db.close()
                raise
        except sqlite3.DatabaseError as error:
            raise LedgerError(
                f"{path}: {error}. `tau fleet repair {path.parent}` makes a new one from the results."
            ) from None

    def _prepare(self, *, read_only: bool) -> None:
        if read_only:
            self._check_version()
            return
        self._path.chmod(0o600)
        self._db.execute("pragma journal_mode=wal")
        self._db.execute("pragma synchronous=full")
        self._create()

    def _create(self) -> None:
        if self._db.execute("pragma user_version").fetchone()[0] == 0:
            with self.transaction():
                for statement in SCHEMA.split(";"):
                    if statement.strip():
                        self._db.execute(statement)
                self._db.execute(f"pragma user_version={VERSION}")
        self._check_version()

    def _check_version(self) -> None:
        found = self._db.execute("pragma user_version").fetchone()[0]
        if found != VERSION:
            raise LedgerError(f"{self._path} has version {found}, and this tau knows {VERSION}.")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing."""
        if self._db.in_transaction:
            yield
            return
        self._begin()
        try:
            yield
            self._db.execute("commit")
        except BaseException as error:
            if self._db.in_transaction:  # SQLite may have rolled it back by itself
                self._db.execute("rollback")
            if isinstance(error, sqlite3.DatabaseError):
                raise self._described(error) from None
            raise

    def _begin(self) -> None:
        try:
            self._db.execute("begin immediate")
        except sqlite3.DatabaseError as error:
            raise self._described(error) from None

    def _described(self, error: sqlite3.DatabaseError) -> Exception:
        """The error of SQLite as one of ours; others are mistakes in this module, and stay."""
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(FULL):
            return LedgerFull(f"{self._path}: {error}")
        if name.startswith(DAMAGED):
            return LedgerError(f"{self._path}: {error}. `tau fleet repair {self._path.parent}` makes a new one.")
        return error

    # Tasks.

    def add(self, tasks: Iterable[tuple[str, str, Task]], now: float) -> int:
        """Add tasks: id, hash, task. Returns how many are new."""
        with self.transaction():
            first = self._db.execute("select coalesce(max(position), 0) + 1 from task").fetchone()[0]
            rows = [(id, first + at, hash, encode(task).decode(), now) for at, (id, hash, task) in enumerate(tasks)]
            before = self._db.total_changes
            self._db.executemany("insert or ignore into task values (?, ?, ?, ?, ?)", rows)
            return self._db.total_changes - before

    def replace_task(self, id: str, hash: str, task: Task) -> None:
        """The line of a task has changed: it begins again."""
        with self.transaction():
            self._db.execute("update task set hash=?, line=? where id=?", (hash, encode(task).decode(), id))
            self._db.execute("delete from result where task=?", (id,))

    def tasks(self) -> list[StoredTask]:
        rows = self._db.execute("select id, hash, line from task order by position")
        return [StoredTask(id, hash, line.encode()) for id, hash, line in rows]

    def open_tasks(self) -> list[StoredTask]:
        """The tasks without a result."""
        rows = self._db.execute(
            "select id, hash, line from task where id not in (select task from result) order by position"
        )
        return [StoredTask(id, hash, line.encode()) for id, hash, line in rows]

    # Attempts.

    def claim(self, attempts: Sequence[tuple[str, int, str]], now: float) -> None:
        """Attempts are about to be sent: task, number, worker."""
        with self.transaction():
            self._db.executemany(
                "insert into attempt (task, number, worker, claimed) values (?, ?, ?, ?)",
                [(task, number, worker, now) for task, number, worker in attempts],
            )

    def begin(self, task: str, number: int, now: float) -> None:
        with self.transaction():
            self._db.execute("update attempt set begun=? where task=? and number=?", (now, task, number))

    def charge(self, task: str, number: int, cost: float) -> None:
        """What an attempt has cost until now."""
        with self.transaction():
            self._db.execute(
                "update attempt set cost=max(cost, ?) where task=? and number=?",
                (cost, task, number),
            )

    def end_attempt(self, task: str, number: int, how: str, now: float) -> None:
        with self.transaction():
            self._db.execute(
                "update attempt set ended=?, how=? where task=? and number=? and ended is null",
                (now, how, task, number),
            )

    def end_open_attempts(self, how: str, now: float, but: Sequence[tuple[str, int]] = ()) -> int:
        """At the start: what was under way when the coordinator ended, without the attempts in `but`."""
        with self.transaction():
            self._db.execute("create temp table if not exists spared (task, number)")
            self._db.execute("delete from spared")
            self._db.executemany("insert into spared values (?, ?)", but)
            done = self._db.execute(
                "update attempt set ended=?, how=? where ended is null and (task, number) not in spared", (now, how)
            )
            return done.rowcount

    def cost(self, task: str, number: int) -> float:
        """What an attempt has cost until now."""
        row = self._db.execute("select cost from attempt where task=? and number=?", (task, number)).fetchone()
        return 0.0 if row is None else float(row[0])

    def open_attempts(self) -> Mapping[str, int]:
        """The attempts that were under way when the coordinator ended: task and number."""
        return dict(self._db.execute("select task, max(number) from attempt where ended is null group by task"))

    def numbers(self) -> Mapping[str, int]:
        """The highest number of an attempt of each task."""
        return dict(self._db.execute("select task, max(number) from attempt group by task"))

    # Results.

    def finish(self, results: Sequence[Result], now: float) -> list[Result]:
        """Store final results. Returns those that are new: a task has one result."""
        stored: list[Result] = []
        with self.transaction():
            for result in results:
                done = self._db.execute(
                    "insert or ignore into result values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        result.id,
                        result.attempt,
                        result.outcome,
                        result.cost,
                        result.turns,
                        result.usage.input + result.usage.output + result.usage.cache_read + result.usage.cache_write,
                        result.seconds.run,
                        now,
                        encode(result).decode(),
                    ),
                )
                if done.rowcount:
                    stored.append(result)
                    self.end_attempt(result.id, result.attempt, result.outcome, now)
                    self.charge(result.id, result.attempt, result.cost)
        return stored

    def forget_results(self, tasks: Iterable[str]) -> int:
        """Make tasks wait again. Returns how many had a result."""
        with self.transaction():
            return self._db.executemany("delete from result where task=?", [(id,) for id in tasks]).rowcount

    def outcomes(self) -> Mapping[str, str]:
        """The outcome of each task that has a result."""
        return dict(self._db.execute("select task, outcome from result"))

    def results(self) -> Iterator[bytes]:
        """The final results as JSON, in the order of the tasks."""
        query = "select record from result join task on task.id = result.task order by position"
        for (record,) in self._db.execute(query):
            yield record.encode()

    def result(self, task: str) -> bytes | None:
        row = self._db.execute("select record from result where task=?", (task,)).fetchone()
        return None if row is None else row[0].encode()

    def counts(self) -> Mapping[str, int]:
        """How many tasks have which outcome; "" counts those without a result."""
        found = dict(self._db.execute("select outcome, count(*) from result group by outcome"))
        return {**found, "": self._db.execute("select count(*) from task").fetchone()[0] - sum(found.values())}

    def spent(self) -> float:
        """The cost of all attempts, also of those that were lost."""
        query = """select coalesce(sum(cost), 0) + (select coalesce(sum(cost), 0) from result
            where not exists (select 1 from attempt where attempt.task = result.task)) from attempt"""
        return float(self._db.execute(query).fetchone()[0])

    # Events.

    def note(self, kind: str, about: str, now: float) -> None:
        with self.transaction():
            self._db.execute("insert into event values (?, ?, ?)", (now, kind, about))

    def close(self) -> None:
        self._db.close()


def _quoted(path: Path) -> str:
    return str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
