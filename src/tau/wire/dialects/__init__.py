"""The protocol versions that tau supports, the newest first.

    dialect = dialects.find("2026-03")      by name, or by release of pi; raises UsageError for anything else
    dialect.event_lines(event)              -> list[bytes]: lines without newlines, none if it is omitted
    dialect.for_json().event_lines(event)   the same in JSON mode
    Outbox(handle, gone, dialect.for_json())    an outbox with this dialect
    dialect.session_line                    True if JSON mode starts with the session header
    update.wire_json(**dialect.update_options)     streamed deltas
    dialect.pi                              the output of `pi --version`
    dialects.DEFAULT, dialects.NAMES        the default dialect; the names of all dialects

wire/dialect.py describes the tables of a dialect. Each dialect is written as the difference to a similar one.
"""

from __future__ import annotations

from importlib import import_module

from tau.wire.dialect import Dialect
from tau.wire.dialects.default import DEFAULT
from tau.wire.releases import ENTRIES, NAMES, Entry, find_entry

__all__ = ["DEFAULT", "NAMES", "Dialect", "all_dialects", "find"]


def find(name: str | None) -> Dialect:
    """Find a dialect by its name, or by the release of pi that a client was written for. Raises UsageError."""
    return _load(find_entry(name)) if name else DEFAULT


def all_dialects() -> list[Dialect]:
    """All dialects, the newest first."""
    return [_load(entry) for entry in ENTRIES.values()]


def _load(entry: Entry) -> Dialect:
    found: Dialect = getattr(import_module(entry.module), entry.attribute)
    return found
