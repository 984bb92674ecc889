"""Tables of docs/compatibility.md, made from the list that scripts/pi_scenarios checks."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[1] / "pi_scenarios" / "differences.toml"


def _table() -> dict[str, Any]:
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def _releases() -> str:
    rows = [
        f"| `{row['dialect']}` | {release} | {row['scenarios']} | {row['same']} |"
        for release, row in _table()["releases"].items()
    ]
    return "\n".join(["| dialect | release of pi | scenarios | the same |", "| --- | --- | --- | --- |", *rows])


def _differences(section: str) -> str:
    rows = [f"| {row['why']} | {_where(row)} |" for row in _table()["difference"] if row["section"] == section]
    return "\n".join(["| difference | scenarios |", "| --- | --- |", *rows])


def _where(row: dict[str, Any]) -> str:
    if "where" in row:
        return str(row["where"])
    cells = [
        f"{releases}: {' '.join(f'`{name}`' for name in names.split())}" for releases, names in row["scenarios"].items()
    ]
    return "; ".join(cells) or "any"


TABLES: dict[str, Callable[[], str]] = {
    "releases": _releases,
    "intended differences": partial(_differences, "intended"),
    "other differences": partial(_differences, "other"),
}
