"""Migrates session files of older versions to the current one.

    1 to 2    entries get ids and parents: each one follows the one before it;
              a compaction names the first kept entry by id instead of by number;
              branchedFrom of the header is renamed to parentSession
    2 to 3    the role hookMessage is renamed to custom

Works on plain values. Lines that cannot be read are reported and left out of the migrated file; the original keeps
them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from tau.records.base import BadRecord, encode, parse
from tau.records.entries import VERSION


def version_of(header: dict[str, Any]) -> int:
    """The version that a header names; the first one did not name it.

    A number in another notation counts as well, as it does in pi: a file that is taken for an older one loses its
    branches in the migration.
    """
    version = header.get("version")
    if isinstance(version, str) and version.isascii() and version.isdigit() and len(version) < 10:
        return int(version)
    if isinstance(version, float) and version.is_integer() and abs(version) < 1e9:
        return int(version)
    return version if isinstance(version, int) else 1


def migrate_lines(lines: list[bytes], report: Callable[[int, str], None]) -> list[bytes]:
    """Return the lines of an older file in the current format. Calls `report(number, problem)` for lines left out."""
    entries: list[dict[str, Any] | None] = []
    for number, line in enumerate(lines, 1):
        try:
            value = parse(line)
            if not isinstance(value, dict):
                raise BadRecord("expected an object")
        except BadRecord as error:
            value = None
            report(number, f"unreadable, skipped ({error})")
        entries.append(value)
    header = entries[0]
    assert header is not None  # the caller has read it
    if version_of(header) < 2:
        _give_ids(entries)
    for entry in entries[1:]:
        if entry and isinstance(message := entry.get("message"), dict) and message.get("role") == "hookMessage":
            message["role"] = "custom"
    header["version"] = VERSION
    if "branchedFrom" in header:
        header.setdefault("parentSession", header.pop("branchedFrom"))
    return [encode(entry) for entry in entries if entry is not None]


def _give_ids(entries: list[dict[str, Any] | None]) -> None:
    """Add ids and parents. `firstKeptEntryIndex` counts lines, including the header."""
    ids: list[str | None] = []
    used: set[str] = set()
    parent: str | None = None
    for at, entry in enumerate(entries):
        if entry is None or at == 0:
            ids.append(None)
            continue
        id = _new_id(used)
        rest = {key: value for key, value in entry.items() if key not in ("type", "id", "parentId")}
        entry_type = entry.get("type")
        entry.clear()
        entry |= {"type": entry_type, "id": id, "parentId": parent, **rest}
        ids.append(id)
        parent = id
    for entry in entries:
        if (
            entry
            and entry.get("type") == "compaction"
            and isinstance(index := entry.pop("firstKeptEntryIndex", None), int)
        ):
            first_kept = ids[index] if 0 <= index < len(ids) else None
            entry["firstKeptEntryId"] = first_kept or entry["id"]


def _new_id(used: set[str]) -> str:
    while (id := os.urandom(4).hex()) in used:
        pass
    used.add(id)
    return id
