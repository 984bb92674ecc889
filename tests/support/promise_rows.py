"""What the catalogue of guarantees and faults is made of."""

from __future__ import annotations

from typing import NamedTuple


class Promise(NamedTuple):
    id: str
    about: str
    says: str


class Row(NamedTuple):
    """A fault or an abuse, and its outcome."""

    id: str
    promises: tuple[str, ...]  # ids of promises; none if no promise depends on it
    fault: str
    outcome: str
    absent: str = ""  # why it does not apply; empty if it does


class Part(NamedTuple):
    title: str
    rows: tuple[Row, ...]
