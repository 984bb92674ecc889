"""Server-sent events, as the WHATWG describes them ("Interpreting an event stream").

CR and CRLF are turned into LF as the bytes come in; after that an event is what
stands between two empty lines. Bytes are decoded only when their event is whole,
so a character can never be cut in two. `id` and `retry` are for clients that
reconnect; we do not. An event that the end of the stream cuts off is dropped, as
the standard asks, so there is nothing to call at the end.
"""

from __future__ import annotations

from tau.errors import ModelError

MIB = 1024 * 1024
LIMIT = 16 * MIB
MANY = 4096
BOM = b"\xef\xbb\xbf"


class SSEDecoder:
    """Portions of bytes in, (event, data) pairs out; "message" where the server named no event.

    The limit is on the bytes of one event, comments and field names included.
    After a ModelError the stream is lost and must not be fed further.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._parts: list[bytes] = []  # of the event that is not whole yet
        self._blocks: list[bytes] = []  # the parts before those, joined: many small ones would take much memory
        self._size = 0
        self._after_cr = False
        self._after_lf = False
        self._started = False

    def feed(self, data: bytes) -> list[tuple[str, str]]:
        """The events that `data` brings to their end."""
        data = self._with_lf_only(data)
        if not data:
            return []
        if b"\n\n" not in data and not (self._after_lf and data.startswith(b"\n")):
            self._hold(data)
            return []
        if self._parts or self._blocks:
            # What is left over below is a part of the new data, so no byte is joined more than three times.
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
        """`data` with LF for every line end. A CR ends its line at once; an LF that follows later adds nothing."""
        if self._after_cr and data:
            self._after_cr = False
            data = data.removeprefix(b"\n")
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return data

    def _hold(self, data: bytes) -> None:
        if not data:
            return
        self._parts.append(data)
        if len(self._parts) == MANY:
            self._blocks.append(b"".join(self._parts))
            self._parts.clear()
        self._size += len(data)
        self._after_lf = data.endswith(b"\n")
        # An LF at the end may be half of the empty line, which is not part of the event.
        if self._size - self._after_lf > self._limit:
            self._parts.clear()
            self._blocks.clear()
            raise self._too_long()

    def _too_long(self) -> ModelError:
        size = f"{self._limit // MIB} MiB" if self._limit >= MIB else f"{self._limit} bytes"
        return ModelError(f"The model server sent an event of more than {size}.")


def _event(block: str) -> tuple[str, str] | None:
    """The event of the lines in `block`, or None when they carry no data."""
    # Nearly every event is `data: …`, or `event: …` and one such line. This
    # runs for each token of an answer, so that shape goes first.
    name, _, rest = block.partition("\n") if block.startswith("event: ") else ("", "", block)
    if rest.startswith("data: ") and "\n" not in rest:
        return name[7:] or "message", rest[6:]

    name = ""
    data = []
    for line in block.split("\n"):
        field, _, value = line.partition(":")  # a comment is a line whose field has no name
        if field == "data":
            data.append(value.removeprefix(" "))
        elif field == "event":
            name = value.removeprefix(" ")
    return (name or "message", "\n".join(data)) if data else None
