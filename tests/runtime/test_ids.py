from __future__ import annotations

import re
from datetime import datetime
from uuid import UUID

from tau.core.conversation.tree import Tree
from tau.runtime.clock import iso, now
from tau.runtime.history.ids import entry_id, session_id


def test_session_ids_are_uuids_that_sort_by_time() -> None:
    ids = [UUID(session_id()) for _ in range(100)]
    assert {(id.version, id.variant) for id in ids} == {(7, "specified in RFC 4122")}
    assert len(set(ids)) == 100
    assert abs((ids[0].int >> 80) - now()) < 60_000


def test_times_are_written_as_iso_with_milliseconds() -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", iso())
    assert abs(datetime.fromisoformat(iso()).timestamp() * 1000 - now()) < 60_000


def test_entry_ids_are_short_and_longer_in_a_large_tree() -> None:
    tree = Tree()
    assert re.fullmatch(r"[0-9a-f]{8}", entry_id(tree))
    for at in range(4097):
        tree.add(b'{"type":"custom","id":"%d"}' % at, str(at), "custom")
    assert re.fullmatch(r"[0-9a-f]{16}", entry_id(tree))
