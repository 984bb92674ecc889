"""What every command has, whatever it is: read before the command is, and also if it is none."""

from __future__ import annotations

from typing import Any

from tau.records.base import MAX_RECEIVED_NESTING, UNSET, BadRecord, Raw, Record, decode, encode, parse


class Envelope(Record):
    """The id may be any JSON value and is echoed byte for byte."""

    id: Raw = Raw()
    type: Any = UNSET


def opened(line: bytes) -> Envelope:
    try:
        if not line.isascii():
            line.decode()  # decoding does not look into what it skips
        return decode(Envelope, line, MAX_RECEIVED_NESTING)
    except UnicodeDecodeError:
        raise BadRecord("not valid UTF-8") from None
    except (BadRecord, RecursionError, UnicodeEncodeError):
        value = parse(line, MAX_RECEIVED_NESTING)
    if not isinstance(value, dict):
        raise BadRecord('expected an object with a string "type"')
    return Envelope(Raw(encode(value["id"])) if "id" in value else Raw(), value.get("type"))
