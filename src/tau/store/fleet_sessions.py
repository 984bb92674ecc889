"""Fleets that show their running sessions to `tau serve` of the same user (`tau fleet run --serve`)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from tau.records.base import BadRecord, encode, parse

MAX_SHOWN = 200


class FleetSession(NamedTuple):
    """The session of an attempt that is under way. `out` is the folder of the fleet."""

    out: Path
    task: str
    attempt: int
    path: Path


@contextmanager
def announced(agent_dir: Path, out: Path) -> Iterator[None]:
    """While this lasts, hosts of this agent folder list the running sessions of a fleet."""
    folder = _folder(agent_dir)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"{hashlib.sha256(str(out).encode()).hexdigest()[:16]}.json"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(handle, "wb") as file:
        file.write(encode({"out": str(out), "pid": os.getpid()}))
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def fleet_sessions(agent_dir: Path) -> list[FleetSession]:
    """The running sessions of announced fleets whose coordinator lives, the oldest first. Blocks."""
    found: list[FleetSession] = []
    for path in sorted(_folder(agent_dir).glob("*.json")):
        with suppress(OSError, BadRecord, KeyError, TypeError, ValueError):
            about = parse(path.read_bytes())
            os.kill(int(about["pid"]), 0)  # raises if it is gone
            found += _running(Path(about["out"]))
    return found[:MAX_SHOWN]


def _running(out: Path) -> Iterator[FleetSession]:
    from tau.store.ledger import LedgerError
    from tau.store.ledger_view import LedgerView

    with suppress(LedgerError):
        view = LedgerView(out / "ledger.db")
        try:
            attempts = view.running()[:MAX_SHOWN]
        finally:
            view.close()
        for one in attempts:
            session = out / "tasks" / one.task / f"{one.number}.partial" / "session.jsonl"
            if os.path.exists(session):
                yield FleetSession(out, one.task, one.number, session)


def _folder(agent_dir: Path) -> Path:
    return agent_dir / "serve" / "fleets"
