"""Sessions of running fleets in the lists of a host: they can be seen, but opening.py does not open them."""

from __future__ import annotations

from pathlib import Path

from tau.records.base import replace
from tau.records.host_events import HostSessionRow
from tau.serve.session_rows import read_row
from tau.store.fleet_sessions import fleet_sessions


def fleet_rows(agent_dir: Path) -> list[HostSessionRow]:
    """Rows of the sessions that fleets of this user are running. Blocks."""
    found = []
    for one in fleet_sessions(agent_dir):
        if (row := read_row(one.path)) is not None:
            name = f"fleet {one.out.name}: {one.task}, attempt {one.attempt}"
            found.append(replace(row, name=name, streaming=True))
    return found
