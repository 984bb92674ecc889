"""What can still be read in a damaged ledger: row by row, as far as SQLite gets."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple


class Salvaged(NamedTuple):
    """Rows of the tables: `tasks` (id, hash, line), `attempts` (task, number, cost), `results` (records as JSON)."""

    tasks: list[tuple[str, str, str]]
    attempts: list[tuple[str, int, float]]
    results: list[str]


def is_sound(path: Path) -> bool:
    """True if SQLite finds nothing wrong with the file."""
    with suppress(sqlite3.DatabaseError):
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            version = database.execute("pragma user_version").fetchone()[0]
            return bool(version) and database.execute("pragma integrity_check(1)").fetchone()[0] == "ok"
        finally:
            database.close()
    return False


def salvage(path: Path) -> Salvaged:
    """Never raises for what is damaged: the rows before the damage count."""
    return Salvaged(
        list(_rows(path, "select id, hash, line from task order by position")),
        list(_rows(path, "select task, number, cost from attempt")),
        [record for (record,) in _rows(path, "select record from result")],
    )


def _rows(path: Path, query: str) -> Iterator[Any]:
    with suppress(sqlite3.DatabaseError):
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        database.text_factory = lambda data: data.decode(errors="replace")
        try:
            cursor = database.execute(query)
            while (row := cursor.fetchone()) is not None:
                if all(isinstance(value, str | int | float) for value in row):
                    yield row
        finally:
            database.close()
