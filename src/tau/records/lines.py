"""A session entry as it stands in a file, read only as far as it must be.

A session may hold a million entries. Opening one reads of each line what makes
the tree; the rest stays bytes until somebody asks, and what is passed on is
passed on as the bytes it was.
"""

from __future__ import annotations

from typing import Any

from tau.records.base import UNSET, BadRecord, Raw, Record, UnsetType, decode, encode, keep, parse
from tau.records.entries import AnyEntry


class Outline(Record):
    """What makes the tree."""

    type: str
    id: str | UnsetType = UNSET
    parent_id: str | UnsetType | None = UNSET


class OutlineWithMessage(Outline):
    message: Raw = Raw()


class Role(Record):
    role: str


class MessageLine(Record):
    message: Raw


MESSAGE = b',"message":'  # outside of strings: inside, the quotes would be escaped


def outline(line: bytes) -> tuple[Outline, bool]:
    """What makes the tree, and whether a message is the rest of the line, so that it can be cut out unread."""
    try:
        found = decode(OutlineWithMessage, line)
    except BadRecord:  # a lone surrogate, for one, is not read that way
        return decode(Outline, line), False
    size = memoryview(found.message).nbytes
    return found, size > 0 and line.find(MESSAGE) + len(MESSAGE) + size + 1 == len(line)


def can_be_cut_out(line: bytes) -> bool:
    try:
        return outline(line)[1]
    except BadRecord:
        return False


class OtherEntry(Record):
    """An entry of a type we do not know: it keeps its place in the tree and its bytes."""

    type: str
    id: str
    parent_id: str | None = None
    timestamp: str = ""


def read_entry(line: bytes) -> AnyEntry | OtherEntry:
    """One entry; `wire()` of it gives the same bytes back. Raises BadRecord for what is no entry."""
    try:
        return keep(decode(AnyEntry, line), line)  # type: ignore[arg-type]
    except BadRecord:
        return keep(decode(OtherEntry, line), line)


def message_json(line: bytes) -> bytes:
    """The message of a message entry, as it stands in the line."""
    try:
        return bytes(decode(MessageLine, line).message)
    except BadRecord:
        value: Any = parse(line)  # a lone surrogate is only read this way
        if isinstance(value, dict) and isinstance(value.get("message"), dict):
            return encode(value["message"])
        raise
