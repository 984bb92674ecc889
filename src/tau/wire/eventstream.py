"""AWS event streams: binary frames with headers, a payload and two checksums.

    total length (4 bytes) | length of headers (4) | CRC of these (4)
    headers | payload | CRC of all before it (4)

A header is a name, a type and a value; only string headers are kept, which say what a frame is. A frame that is cut
off by the end of the stream is dropped, so there is no end() to call: the reader decides whether an answer is
complete.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from tau.errors import ModelError
from tau.records.base import encode

MIB = 1024 * 1024
MAX_EVENT_BYTES = 16 * MIB
PRELUDE = struct.Struct(">III")
CRC = struct.Struct(">I")
# Sizes of values by type; None: the value starts with its own length.
TRUE, FALSE, BYTES, STRING = 0, 1, 6, 7
SIZES = {TRUE: 0, FALSE: 0, 2: 1, 3: 2, 4: 4, 5: 8, BYTES: None, STRING: None, 8: 8, 9: 16}


class EventStreamDecoder:
    """Bytes in chunks of any size in, (type, payload) pairs out.

    The type is that of the event or of the exception. An error reported by the transport is ("error", {"code",
    "message"}). After a ModelError the stream is unusable and must not be fed further.
    """

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        self._limit = limit
        self._bytes = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[str, str]]:
        """Yield the frames that `data` completes, one by one: frames before an invalid one are valid."""
        self._bytes += data
        start = 0
        while (end := self._end(start)) is not None:
            yield _frame(bytes(self._bytes[start:end]))
            start = end
        del self._bytes[:start]

    def _end(self, start: int) -> int | None:
        """End of the frame at `start` if it is complete. The length is used only if its checksum is right."""
        if len(self._bytes) < start + PRELUDE.size:
            return None
        total, headers, crc = PRELUDE.unpack_from(self._bytes, start)
        if zlib.crc32(self._bytes[start : start + 8]) != crc:
            raise _stream_error("the checksum of a frame's length is wrong")
        if total > self._limit:
            size = f"{self._limit // MIB} MiB" if self._limit >= MIB else f"{self._limit} bytes"
            raise ModelError(f"The model server sent an event of more than {size}.")
        if total < PRELUDE.size + headers + CRC.size:
            raise _stream_error("a frame is shorter than its headers")
        return start + total if len(self._bytes) >= start + total else None


def _frame(data: bytes) -> tuple[str, str]:
    _, size, _ = PRELUDE.unpack_from(data)
    if zlib.crc32(data[: -CRC.size]) != CRC.unpack(data[-CRC.size :])[0]:
        raise _stream_error("the checksum of a frame is wrong")
    at = PRELUDE.size + size
    try:
        headers = dict(_headers(data[PRELUDE.size : at]))
        payload = data[at : -CRC.size].decode()
    except (struct.error, IndexError, KeyError, UnicodeDecodeError):
        raise _stream_error("a frame cannot be decoded") from None
    match headers.get(":message-type", "event"):
        case "error":
            error = {"code": headers.get(":error-code"), "message": headers.get(":error-message")}
            return "error", encode(error).decode()
        case "exception":
            return headers.get(":exception-type", "exception"), payload
    return headers.get(":event-type", ""), payload


def _headers(data: bytes) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(data):
        length = data[at]
        name = data[at + 1 : at + 1 + length].decode()
        kind = data[at + 1 + length]
        at += 2 + length
        size = SIZES[kind]
        if size is None:
            (size,) = struct.unpack_from(">H", data, at)
            at += 2
        if at + size > len(data):
            raise IndexError
        if kind == STRING:
            yield name, data[at : at + size].decode()
        at += size


def _stream_error(why: str) -> ModelError:
    return ModelError(f"The model server's event stream is broken: {why}.", transient=True)
