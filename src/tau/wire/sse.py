"""Server-sent events as in the WHATWG standard ("Interpreting an event stream").

CR and CRLF are converted to LF on input; then an event is the text between two empty lines. Bytes are decoded only
when their event is complete, so a character is never split. `id` and `retry` are ignored: they are for clients that
reconnect, which tau does not. Beyond the standard, a field `error` without data is an event of that name: older
releases of llama.cpp send it. An event that is cut off by the end of the stream is dropped, as the standard requires,
so there is no end() to call.
"""

from __future__ import annotations

from tau.errors import ModelError

MIB = 1024 * 1024
MAX_EVENT_BYTES = 16 * MIB
JOIN_AFTER = 4096
BOM = b"\xef\xbb\xbf"
CR = 0x0D  # a number is found faster than bytes: for those, `in` raises and clears a TypeError each time


class SSEDecoder:
    """Bytes in chunks of any size in, (event, data) pairs out; the event is "message" if the server did not name it.

    The limit applies to the bytes of one event, including comments and field names. After a ModelError the stream is
    unusable and must not be fed further.
    """

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        self._limit = limit
        self._parts: list[bytes] = []  # of the incomplete event
        self._blocks: list[bytes] = []  # earlier parts, joined: many small objects would take much memory
        self._size = 0
        self._after_cr = False
        self._after_lf = False
        self._started = False

    def feed(self, data: bytes) -> list[tuple[str, str]]:
        """The events that `data` completes."""
        if self._started and not self._size and not self._after_cr and len(data) <= self._limit and CR not in data:
            end = data.find(b"\n\n")
            if end >= 0 and end == len(data) - 2:  # fast path: one whole event
                event = _event(data[:end].decode("utf-8", "replace"))
                return [event] if event else []
        data = self._with_lf_only(data)
        if not data:
            return []
        if data.find(b"\n\n") < 0 and not (self._after_lf and data.startswith(b"\n")):
            self._hold(data)
            return []
        if self._parts or self._blocks:
            # The remainder below is part of the new data, so no byte is joined more than three times.
            data = b"".join([*self._blocks, *self._parts, data])
            self._parts.clear()
            self._blocks.clear()
            self._size = 0
        *blocks, rest = data.split(b"\n\n")
        if len(data) > self._limit and max(map(len, blocks)) > self._limit:
            raise self._too_long()
        if not self._started:
            self._started = True
            blocks[0] = blocks[0].removeprefix(BOM)
        self._after_lf = False
        self._hold(rest)
        return [event for block in blocks if (event := _event(block.decode("utf-8", "replace")))]

    def _with_lf_only(self, data: bytes) -> bytes:
        """Convert line endings to LF. A CR ends its line at once; an LF that follows in the next chunk is skipped."""
        if self._after_cr and data:
            self._after_cr = False
            data = data.removeprefix(b"\n")
        if CR in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return data

    def _hold(self, data: bytes) -> None:
        if not data:
            return
        self._parts.append(data)
        if len(self._parts) == JOIN_AFTER:
            self._blocks.append(b"".join(self._parts))
            self._parts.clear()
        self._size += len(data)
        self._after_lf = data.endswith(b"\n")
        # A trailing LF may be half of the empty line, which is not part of the event.
        if self._size - self._after_lf > self._limit:
            self._parts.clear()
            self._blocks.clear()
            raise self._too_long()

    def _too_long(self) -> ModelError:
        size = f"{self._limit // MIB} MiB" if self._limit >= MIB else f"{self._limit} bytes"
        return ModelError(f"The model server sent an event of more than {size}.")


def _event(block: str) -> tuple[str, str] | None:
    """The event in the lines of `block`, or None if they contain no data."""
    # Fast path, since this runs for each token: nearly every event is `data: …`, or `event: …` and one such line.
    name, _, rest = block.partition("\n") if block.startswith("event: ") else ("", "", block)
    if rest.startswith("data: ") and "\n" not in rest:
        return name[7:] or "message", rest[6:]

    name = ""
    data = []
    failure: str | None = None
    for line in block.split("\n"):
        field, _, value = line.partition(":")  # a comment is a line with an empty field name
        if field == "data":
            data.append(value.removeprefix(" "))
        elif field == "event":
            name = value.removeprefix(" ")
        elif field == "error":
            failure = value.removeprefix(" ")
    if not data and failure is not None:
        return "error", failure
    return (name or "message", "\n".join(data)) if data else None
