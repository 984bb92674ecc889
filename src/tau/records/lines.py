"""A session entry as it stands in a file, read only as far as it must be.

A session may hold a million entries. Opening one reads of each line what makes
the tree; the rest stays bytes until somebody asks, and what is passed on is
passed on as the bytes it was. So the nesting of a line is looked at when its
content is read, and not before: readers of outlines have no limit of their own.
"""

from __future__ import annotations

from typing import Any

from tau.records.base import UNSET, BadRecord, Raw, Record, UnsetType, Value, decode, decode_lines, encode, keep, parse
from tau.records.entries import AnyEntry
from tau.records.messages import AnyMessage, Assistant, Custom, ToolCall, ToolResult
from tau.records.nesting import MAX_NESTING, is_deeper


class Outline(Record):
    """What makes the tree."""

    type: str
    id: str | UnsetType = UNSET
    parent_id: str | UnsetType | None = UNSET


class MessageLine(Record):
    message: Raw


class Head(Value, rename="camel", gc=False):
    """The same where all is well."""

    type: str
    id: str
    parent_id: str | None


def outlines(block: bytes, size: int) -> tuple[list[Head], list[int]] | None:
    """The outlines of the lines in the first `size` bytes, and where they end; None if one wants a closer look."""
    found = decode_lines(Head, memoryview(block)[:size])
    if found is None:
        return None
    plain = block.isascii()
    find, ends, start = block.find, [], 0
    for _ in found:
        end = find(b"\n", start)
        # A value that goes on in the next line would have its comma at one of the two ends.
        if end < 0 or block[start] != 123 or block[end - 1] != 125:
            return None
        # Decoding an outline does not look into the rest. Most lines are known to be text at a glance.
        if not plain and not (line := block[start:end]).isascii() and not _is_text(line):
            return None
        ends.append(end)
        start = end + 1
    return (found, ends) if start == size else None


def _is_text(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def messages(count: int, block: bytes) -> list[bytes] | None:
    """The messages of a block of `count` message entries, as they stand in it; None if one wants a closer look."""
    found = decode_lines(MessageLine, block)
    if found is None or len(found) != count:
        return None
    given = [bytes(one.message) for one in found]
    return given if all(one.startswith(b'{"role":"') for one in given) else None


class TypedMessageLine(Record):
    message: AnyMessage


def typed_messages(count: int, block: bytes) -> list[AnyMessage] | None:
    """The same, read; without the bytes they were read from."""
    found = decode_lines(TypedMessageLine, block)
    if found is None or len(found) != count or any(_is_deep(one.message) for one in found):
        return None
    return [one.message for one in found]


def _is_deep(message: AnyMessage) -> bool:
    """True if the line of this message has more levels than are read one by one. Only values of any shape can."""
    if isinstance(message, Assistant):
        return any(isinstance(one, ToolCall) and is_deeper(one.arguments, MAX_NESTING - 4) for one in message.content)
    return isinstance(message, ToolResult | Custom) and is_deeper(message.details, MAX_NESTING - 2)


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
        return keep(decode(OtherEntry, line, nesting=None), line)


def message_json(line: bytes) -> bytes:
    """The message of a message entry, as it stands in the line."""
    try:
        return bytes(decode(MessageLine, line).message)
    except BadRecord:
        value: Any = parse(line)  # a lone surrogate is only read this way
        if isinstance(value, dict) and isinstance(value.get("message"), dict):
            return encode(value["message"])
        raise
