"""Requests: one line from the client, parsed as far as needed to find its handler.

The envelope of a line, its id and type, is decoded before the command itself, even if it is not a valid command: then
the error response can still carry the id.
"""

# Without `from __future__ import annotations`: msgspec would compile each annotation of what every start decodes.
from typing import Any

from tau.records.base import (
    DECODING_ERRORS,
    MAX_RECEIVED_NESTING,
    UNSET,
    BadRecord,
    Raw,
    Value,
    decode,
    decoder,
    encode,
    escape_separators,
    parse,
)
from tau.records.commands import Command
from tau.wire.dialect import Dialect
from tau.wire.dialects import DEFAULT
from tau.wire.lines import LineTooLong

InputLine = bytes | LineTooLong


class Envelope(Value):
    """`id` may be any JSON value and is echoed byte for byte, but for U+2028 and U+2029, which are escaped."""

    id: Raw = Raw()
    type: Any = UNSET


decode_envelope = decoder(Envelope)


class Request(Value):
    """A known command that is not decoded yet."""

    kind: type[Command]
    name: str  # as in the line; the dialect's name of the command
    id: Raw  # as in the line, and a view of it; empty without an id
    body: bytes  # JSON, with tau's name of the command


class InvalidLine(Exception):
    """A line that is not a known command. Holds the command, id and error of the response."""

    def __init__(self, command: str, id: bytes, error: str) -> None:
        super().__init__(error)
        self.command = command
        self.id = id


def parse_envelope(line: bytes) -> Envelope:
    """Decode the envelope of a line. Raises BadRecord."""
    try:
        if line.isascii():
            return decode(Envelope, line, MAX_RECEIVED_NESTING)
        line.decode()  # msgspec does not validate the UTF-8 of fields that it skips
        envelope = decode(Envelope, line, MAX_RECEIVED_NESTING)
        return Envelope(Raw(escape_separators(bytes(envelope.id))), envelope.type)
    except UnicodeDecodeError:
        raise BadRecord("not valid UTF-8") from None
    except (BadRecord, RecursionError, UnicodeEncodeError):
        value = parse(line, MAX_RECEIVED_NESTING)
    if not isinstance(value, dict):
        raise BadRecord('expected an object with a string "type"')
    return Envelope(Raw(encode(value["id"])) if "id" in value else Raw(), value.get("type"))


def parse_request(line: InputLine, dialect: Dialect = DEFAULT) -> Request | None:
    """Parse a line; None for an answer to a dialog, which is not a command. Raises InvalidLine."""
    if not isinstance(line, bytes):
        raise InvalidLine("parse", b"", f"Failed to parse command: the line is longer than {line.size_limit} bytes")
    try:
        # Nearly every line is so short that its nesting need not be checked.
        is_short = len(line) <= MAX_RECEIVED_NESTING and line.isascii()
        envelope = decode_envelope(line) if is_short else _envelope(line)
    except DECODING_ERRORS:
        envelope = _envelope(line)
    id, name = envelope.id, envelope.type
    if not isinstance(name, str):
        raise InvalidLine("parse", bytes(id), 'Failed to parse command: expected an object with a string "type"')
    kind = dialect.command_types.get(name)
    if kind is None:
        if name == "extension_ui_response":
            return None
        raise InvalidLine(name, bytes(id), f"Unknown command: {name}")
    if name not in dialect.names:
        return Request(kind, name, id, line)
    try:
        return Request(kind, name, id, with_canonical_type(line, kind))
    except BadRecord as error:
        raise InvalidLine(name, bytes(id), str(error)) from None


def _envelope(line: bytes) -> Envelope:
    try:
        return parse_envelope(line)
    except BadRecord as error:
        raise InvalidLine("parse", b"", f"Failed to parse command: {error}") from None


def is_blank(line: InputLine) -> bool:
    """True for a line of spaces or nothing, which is ignored."""
    return isinstance(line, bytes) and (not line or line.isspace())


def parse_dialog_answer(line: bytes) -> Any:
    """Parse an answer to a dialog. Raises InvalidLine: the envelope of a line can be read although its value cannot."""
    try:
        return parse(line, MAX_RECEIVED_NESTING)
    except BadRecord as error:
        raise InvalidLine("parse", b"", f"Failed to parse command: {error}") from None


def with_canonical_type(line: bytes, kind: type[Command]) -> bytes:
    """Replace the dialect's name of a command by tau's, because records are decoded by their tag.

    The other fields stay as they are written. Raises BadRecord.
    """
    try:
        fields: dict[str, Any] = decode(dict[str, Raw], line, MAX_RECEIVED_NESTING)
    except BadRecord:  # a lone surrogate, which Raw cannot hold
        fields = parse(line, MAX_RECEIVED_NESTING)
    return encode({**fields, "type": str(kind.__struct_config__.tag)})


def line_type(line: InputLine | None) -> Any:
    """The `type` of a line; None if it has none or is not valid."""
    try:
        return parse_envelope(line).type if isinstance(line, bytes) else None
    except BadRecord:
        return None
