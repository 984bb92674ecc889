"""Lists of sessions: those of files, and what is known of those that are live."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tau.errors import CommandError
from tau.records.base import UNSET, UnsetType, replace
from tau.records.host_events import HostSessionRow, HostSessions
from tau.records.replies import SessionRow
from tau.runtime.clock import now
from tau.serve.live_session import LiveSession
from tau.store.listing import NO_MESSAGES, check_shortage, read_header, recent_files, session_head, session_row

MAX_ROWS = 200
_NUMBER = rb"[0-9]{1,20}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,3})?"
_COST = re.compile(rb'"usage":\{[^{}]*"cost":\{[^{}]*"total":(%b)[,}]' % _NUMBER)
LARGE_BYTES = 4 * 1024 * 1024  # of a larger file only the beginning is read


def file_rows(
    folders: Iterable[Path], serves: Callable[[str], bool], cursor: str | None, limit: int
) -> tuple[list[HostSessionRow], str | None]:
    """Rows of the sessions whose folders are served, newest first, and the cursor of the next page. Blocks."""
    files = recent_files(folders)
    start = 0
    if cursor is not None:
        start = next((at + 1 for at, path in enumerate(files) if path.name == cursor), -1)
        if start < 0:
            raise CommandError("cursor: the session that it names does not exist any more")
    rows: list[HostSessionRow] = []
    last = None
    for path in files[start:]:
        if len(rows) == limit:
            return rows, last
        header = read_header(path)
        if header is not None and serves(header.cwd) and (row := read_row(path)) is not None:
            rows.append(row)
            last = path.name
    return rows, None


def read_row(path: Path) -> HostSessionRow | None:
    """The row of a session file; None if it is not one. Blocks."""
    try:
        large = os.path.getsize(path) > LARGE_BYTES
        row = session_head(path) if large else session_row(path)
        return None if row is None else _from_file(row, UNSET if large else file_cost(path))
    except OSError as error:
        check_shortage(error)
        return None


def file_cost(path: Path) -> float:
    """Dollars, for all entries of a session file. The text of a message cannot match: its quotes are escaped."""
    return sum(float(number) for number in _COST.findall(path.read_bytes()))


def _from_file(row: SessionRow, cost: float | UnsetType) -> HostSessionRow:
    return HostSessionRow(
        row.id,
        row.cwd,
        row.path,
        row.name,
        row.created,
        row.modified,
        row.message_count,
        row.first_message,
        live=False,
        cost=cost,
    )


def with_live(
    rows: Sequence[HostSessionRow],
    sessions: Sequence[LiveSession],
    *,
    first_page: bool,
    cursor: str | None = None,
    only_live: bool = False,
) -> HostSessions:
    """Rows of files with what is known of live sessions. The first page also has live sessions without a file."""
    by_id = {live.id: live for live in sessions}
    known = {row.id for row in rows}
    merged = [_with_state(row, by_id[row.id]) if row.id in by_id else row for row in rows]
    if first_page:
        unsaved = [live for live in sessions if live.id not in known and (only_live or not has_file(live))]
        merged = [*(live_row(live) for live in unsaved), *merged]
    return HostSessions(merged, UNSET if cursor is None else cursor)


def has_file(live: LiveSession) -> bool:
    path = live.handle.log.path
    return path is not None and os.path.exists(path)


def live_row(live: LiveSession) -> HostSessionRow:
    """The row of a live session, without reading its file."""
    log = live.handle.log
    points = log.tree.fork_points() if len(log.tree) < 1000 else []
    row = HostSessionRow(
        live.id,
        live.cwd,
        UNSET if log.path is None else str(log.path),
        log.tree.name or UNSET,
        live.opened,
        now(),
        log.message_count,
        points[0].text if points else NO_MESSAGES,
        live=True,
    )
    return _with_state(row, live)


def _with_state(row: HostSessionRow, live: LiveSession) -> HostSessionRow:
    total = live.total_cost
    return replace(
        row,
        live=True,
        streaming=live.streaming,
        attention=live.attention,
        clients=len(live.attachments),
        cost=UNSET if total is None else total,
    )
