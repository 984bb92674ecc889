"""The envelope of a line: its id and type, decoded before the command itself, even if it is not a valid command."""

from __future__ import annotations

from typing import Any

from tau.records.base import MAX_RECEIVED_NESTING, UNSET, BadRecord, Raw, Record, decode, encode, parse


class Envelope(Record):
    """`id` may be any JSON value and is echoed byte for byte."""

    id: Raw = Raw()
    type: Any = UNSET


def parse_envelope(line: bytes) -> Envelope:
    """Decode the envelope of a line. Raises BadRecord."""
    try:
        if not line.isascii():
            line.decode()  # msgspec does not validate the UTF-8 of fields that it skips
        return decode(Envelope, line, MAX_RECEIVED_NESTING)
    except UnicodeDecodeError:
        raise BadRecord("not valid UTF-8") from None
    except (BadRecord, RecursionError, UnicodeEncodeError):
        value = parse(line, MAX_RECEIVED_NESTING)
    if not isinstance(value, dict):
        raise BadRecord('expected an object with a string "type"')
    return Envelope(Raw(encode(value["id"])) if "id" in value else Raw(), value.get("type"))
