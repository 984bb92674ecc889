"""Session lines, decoded only as far as needed.

A session may hold a million entries. Opening one decodes only the fields of each line that form the tree; the rest
stays bytes until it is needed, and what is sent to a client is sent as those bytes. The nesting of a line is
checked when its content is decoded: decoding outlines has no limit of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast

from tau.records.base import (
    UNSET,
    BadRecord,
    Raw,
    Record,
    UnsetType,
    Value,
    attach_source,
    decode,
    decode_lines,
    encode,
    note_left_out,
    parse_stored,
)
from tau.records.entries import AnyEntry, MessageEntry
from tau.records.messages import AnyMessage, Assistant, Custom, Other, StoredMessage, ToolCall, ToolResult
from tau.records.nesting import MAX_NESTING, is_deeper


class Outline(Record):
    """The fields of an entry that form the tree. A parent that is not text counts as missing."""

    type: str
    id: str | UnsetType = UNSET
    parent_id: Any = UNSET


class MessageLine(Value, gc=False):
    message: Raw


class Role(Value, gc=False):
    role: str = ""


_NO_ROLE = Role()


class FullOutline(Value, rename="camel", gc=False):
    """Like Outline, for lines in which all fields are present. Decoding is faster.

    The role of a message costs next to nothing here: the decoder passes over the message in any case.
    """

    type: str
    id: str
    parent_id: str | None
    message: Role = _NO_ROLE


def read_outlines(block: bytes, size: int) -> tuple[list[FullOutline], list[int]] | None:
    """Decode the outlines of the lines in the first `size` bytes of `block`, and the offsets at which the lines end.

    None if a line does not have the usual form and must be decoded on its own.
    """
    heads = decode_lines(FullOutline, memoryview(block)[:size])
    if heads is None:
        return None
    is_ascii = block.isascii()
    find, ends, start = block.find, [], 0
    for _ in heads:
        end = find(b"\n", start)
        # A value that continues on the next line has its comma at one of the two ends.
        if block[start] != 123 or block[end - 1] != 125:
            return None
        # Decoding an outline does not check the rest of the line for UTF-8. The ASCII check is fast.
        if not is_ascii and not (line := block[start:end]).isascii() and not _is_text(line):
            return None
        ends.append(end)
        start = end + 1
    return (heads, ends) if start == size and -1 not in ends else None


def _is_text(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def raw_messages(count: int, block: bytes) -> Sequence[bytes] | None:
    """Return the raw JSON of the messages in a block of `count` message entries, as views of the block.

    None if a line does not have the usual form and must be decoded on its own.
    """
    lines = decode_lines(MessageLine, block)
    if lines is None or len(lines) != count:
        return None
    raw = [line.message for line in lines]
    return raw if all([memoryview(one)[:9] == b'{"role":"' for one in raw]) else None  # type: ignore[comparison-overlap]


class PromptText(Value, gc=False):
    type: Literal["text"]  # and not a tag, which may be missing
    text: Raw


class PromptMessage(Value, gc=False):
    role: Literal["user"]
    content: tuple[PromptText]


class PromptLine(Value, gc=False):
    """A message entry whose message is a prompt of text; the text stays as it is in the file."""

    type: Literal["message"]
    id: Raw
    message: PromptMessage


class ForkPoint(Record):
    """A user message that can be forked from."""

    entry_id: str
    text: str


def prompt_points(lines: Sequence[bytes]) -> list[bytes] | None:
    """The fork points of prompts as clients receive them: a JSON object each.

    Their texts are copied without being decoded: the lines must be valid UTF-8, as those of a tree are. None if one of
    them does not have the usual form.
    """
    found = decode_lines(PromptLine, b"\n".join(lines))
    if found is None or len(found) != len(lines):
        return None
    points = [b'{"entryId":%b,"text":%b}' % (line.id, line.message.content[0].text) for line in found]
    # The first such place is the end of the id, because quotes inside it are escaped: so every text is a string.
    # With an id of eight letters it is known.
    if all([point.startswith(b'","text":"', 20) for point in points]):
        return points
    return points if all([0 < point.find(b'","text":"') == point.find(b'","text":') for point in points]) else None


class TypedMessageLine(Record):
    message: AnyMessage


def typed_messages(count: int, block: bytes) -> list[AnyMessage] | None:
    """Like `raw_messages`, but decoded. The messages do not keep the bytes they were decoded from."""
    lines = decode_lines(TypedMessageLine, block)
    if lines is None or len(lines) != count or any(_is_deep(line.message) for line in lines):
        return None
    return [line.message for line in lines]


def message_entries(count: int, block: bytes) -> list[MessageEntry] | None:
    """Decode a block of `count` message entries. They do not keep the bytes they were decoded from.

    None if one of them is another entry, or must be decoded on its own.
    """
    entries = decode_lines(MessageEntry, block)
    if entries is None or len(entries) != count or any(_is_deep(entry.message) for entry in entries):
        return None
    return entries


def _is_deep(message: AnyMessage) -> bool:
    """True if the line of this message exceeds the nesting limit. Only values of any shape can."""
    if isinstance(message, Assistant):
        calls = (block for block in message.content if isinstance(block, ToolCall))
        return any(is_deeper(call.arguments, MAX_NESTING - 4) for call in calls)
    return isinstance(message, ToolResult | Custom) and is_deeper(message.details, MAX_NESTING - 2)


class UnknownEntry(Record):
    """An entry of an unknown type. It keeps its place in the tree and its bytes."""

    type: str
    id: str
    parent_id: str | None = None
    timestamp: str = ""


def read_entry(line: bytes) -> AnyEntry | UnknownEntry:
    """Decode one entry; `wire_json()` returns its original bytes. Raises BadRecord if it is not an entry."""
    try:
        return attach_source(decode(AnyEntry, line), line)  # type: ignore[arg-type]
    except BadRecord:
        pass
    try:
        from tau.records.lenient import read_leniently

        return attach_source(cast("AnyEntry", read_leniently(AnyEntry, parse_stored(line))), line)
    except BadRecord as error:
        return note_left_out(attach_source(decode(UnknownEntry, line, nesting=None), line), [str(error)])


def read_message(data: bytes) -> StoredMessage:
    """Decode one message; `wire_json()` returns its original bytes. Raises BadRecord."""
    try:
        return attach_source(decode(AnyMessage, data), data)  # type: ignore[arg-type]
    except BadRecord:
        value = parse_stored(data)
    try:
        from tau.records.lenient import read_leniently

        return attach_source(cast("AnyMessage", read_leniently(AnyMessage, value)), data)
    except BadRecord as error:
        if isinstance(value, dict) and isinstance(role := value.get("role"), str):
            return note_left_out(attach_source(Other(role), data), [] if role == "system" else [str(error)])
        raise


def message_json(line: bytes) -> bytes:
    """Return the raw JSON of the message in a message entry."""
    try:
        return bytes(decode(MessageLine, line).message)
    except BadRecord:
        value: Any = parse_stored(line)  # msgspec rejects lone surrogates, parse() does not
        if isinstance(value, dict) and isinstance(value.get("message"), dict):
            return encode(value["message"])
        raise
