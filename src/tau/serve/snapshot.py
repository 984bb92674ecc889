"""Snapshots: what a client is sent instead of the events that it did not hear."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tau.core.conversation.tree import Tree
from tau.records.base import UNSET, Raw, replace
from tau.records.dialogs import Editor, ui_json
from tau.records.events import event_json
from tau.records.host_events import Snapshot, SnapshotReason
from tau.serve.session_view import Question

if TYPE_CHECKING:
    from tau.serve.live_session import LiveSession

MAX_ENTRIES_BYTES = 256 * 1024


def snapshot_line(live: LiveSession, reason: SnapshotReason, entry: str | None) -> bytes:
    """The snapshot of a session at this moment. `entry` is the last entry that the client has."""
    handle, stream, view = live.handle, live.stream, live.stream.view
    entries, more = newest_entries(handle.tree, handle.log.announced_entries, entry)
    return event_json(
        Snapshot(
            session=live.id,
            stream=stream.id,
            seq=stream.last,
            reason=reason,
            state=handle.state.masked(),
            leaf_id=handle.tree.leaf_id,
            entries=[Raw(line) for line in entries],
            more=more,
            partial=view.partial_json(),
            tools=view.running_tools(),
            queue=view.queue,
            dialogs=[Raw(ui_json(_with_time_left(live, question))) for question in view.dialogs.values()],
            ui=view.ui(),
            bash=live.running_bash(),
            settled=view.settled,
            interrupted=live.interrupted,
            partial_arguments=view.partial_arguments(),
            cwd=live.cwd,
        )
    )


def newest_entries(tree: Tree, end: int, after: str | None) -> tuple[Sequence[bytes], bool]:
    """The newest entries before position `end`: those after an entry, as far as MAX_ENTRIES_BYTES go.

    Returns their lines, and True if older ones are left out. Ids are compared from the end, so that a large session is
    not read.
    """
    lines: list[bytes] = []
    size = 0
    for at in range(end - 1, -1, -1):
        if after is not None and tree.id(at) == after:
            return lines[::-1], False
        line = tree.line(at)
        size += len(line)
        if size > MAX_ENTRIES_BYTES and lines:
            return lines[::-1], True
        lines.append(line)
    return lines[::-1], False


def _with_time_left(live: LiveSession, question: Question) -> Question:
    deadline = live.handle.dialogs.deadline(question.id)
    if deadline is None or isinstance(question, Editor) or question.timeout is UNSET:
        return question
    return replace(question, timeout=max(1, round((deadline - asyncio.get_running_loop().time()) * 1000)))
