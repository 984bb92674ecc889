"""Content blocks of a message that is being streamed: text, thinking, tool calls.

A block keeps its text in deltas next to the JSON of the same text, so that a snapshot of any earlier moment is a slice
of bytes: `mark` is the length at one moment, `json_at` the JSON of the block at that length. Once it is closed, a
block is `sealed`: a record that does not change any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tau.records.base import (
    MAX_RECEIVED_NESTING,
    UNSET,
    BadRecord,
    UnsetType,
    encode,
    escape_separators,
    parse_text,
    replace,
)
from tau.records.deltas import TextDelta, TextEnd, ThinkingDelta, ThinkingEnd, ToolCallDelta, ToolCallEnd
from tau.records.messages import Text, Thinking, ToolCall

BlockMark = tuple[int, int, bytes]  # index of the block, length of its JSON in bytes, what closes the JSON there


if TYPE_CHECKING:

    class PartialJsonParser(Protocol):
        """Parser for JSON that is still arriving: the best value so far."""

        broken: bool

        def feed(self, delta: str) -> None: ...

        def safe_prefix(self) -> tuple[int, str]: ...

        def completed(self) -> str: ...

        @property
        def text(self) -> str: ...


class TextBlock:
    def __init__(self, index: int) -> None:
        self.index = index
        self.deltas: list[str] = []
        self.signature: list[str] = []
        self.sealed: Text | None = None
        self._escaped = bytearray()

    def add(self, delta: str) -> TextDelta:
        self.deltas.append(delta)
        self._escaped += encode(delta)[1:-1]
        return TextDelta(self.index, delta)

    def close(self) -> TextEnd:
        text = "".join(self.deltas)
        self.sealed = Text(text, joined_signature(self.signature))
        return TextEnd(self.index, text)

    def content(self) -> Text:
        """The block so far."""
        return self.sealed or Text("".join(self.deltas))

    def mark(self) -> BlockMark:
        return self.index, len(self._escaped), b""

    def json_at(self, length: int, closing: bytes) -> bytes:
        return b"".join((b'{"type":"text","text":"', self._escaped[:length], b'"}'))


class ThinkingBlock:
    """`signature` is for thinking that is signed from its start. `redacted`: the provider encrypted the content."""

    def __init__(self, index: int, signature: str = "", *, redacted: bool = False) -> None:
        self.index = index
        self.deltas: list[str] = []
        self.signature: list[str] = [signature] if signature else []
        self.sealed: Thinking | None = None
        self._redacted = redacted
        self._tail = b'","thinkingSignature":%b}' % encode(signature) if signature else b'"}'
        self._escaped = bytearray()

    def add(self, delta: str) -> ThinkingDelta:
        self.deltas.append(delta)
        self._escaped += encode(delta)[1:-1]
        return ThinkingDelta(self.index, delta)

    def close(self) -> ThinkingEnd:
        text = "".join(self.deltas)
        self.sealed = Thinking(text, joined_signature(self.signature), True if self._redacted else UNSET)
        return ThinkingEnd(self.index, text)

    def sign(self, signature: str) -> None:
        self.signature = [signature]
        if self.sealed is not None:
            self.sealed = replace(self.sealed, thinking_signature=signature)

    def content(self) -> Thinking:
        """The block so far."""
        return self.sealed or Thinking("".join(self.deltas), joined_signature(self.signature))

    def mark(self) -> BlockMark:
        return self.index, len(self._escaped), b""

    def json_at(self, length: int, closing: bytes) -> bytes:
        return b"".join((b'{"type":"thinking","thinking":"', self._escaped[:length], self._tail))


class ToolCallBlock:
    """A tool call. Its arguments are shown as far as they can be parsed."""

    def __init__(self, index: int, id: str, name: str, arguments: PartialJsonParser) -> None:
        self.index = index
        self.deltas: list[str] = []
        self.signature: list[str] = []
        self.sealed: ToolCall | None = None
        self.unreadable = False  # the complete text is not a JSON object
        self._call = ToolCall(id, name, {})
        self._head = b'{"type":"toolCall","id":%b,"name":%b,"arguments":' % (encode(id), encode(name))
        self._arguments = arguments
        self._shown = ShownArguments()

    def add(self, delta: str) -> ToolCallDelta:
        self.deltas.append(delta)
        self._arguments.feed(delta)
        self._shown.add(delta)
        return ToolCallDelta(self.index, delta)

    def close(self) -> ToolCallEnd:
        text = self._arguments.text
        # Providers may send no text at all for a call without arguments.
        whole = _parse_object(text) if text.strip() else {}
        if whole is None:
            # Never run a truncated or garbled call, even if a lenient parse would accept it.
            self.unreadable = True
            whole = self._parsed_so_far()
        self.sealed = ToolCall(self._call.id, self._call.name, whole, joined_signature(self.signature))
        return ToolCallEnd(self.index, self.sealed)

    def content(self) -> ToolCall:
        """The call so far."""
        if self.sealed is not None:
            return self.sealed
        return ToolCall(self._call.id, self._call.name, self._parsed_so_far()) if self.deltas else self._call

    def _parsed_so_far(self) -> dict[str, object]:
        return _parse_object(self._arguments.completed()) or {}

    def mark(self) -> BlockMark:
        return self.index, *self._shown.cut(*self._arguments.safe_prefix())

    def json_at(self, length: int, closing: bytes) -> bytes:
        return b"".join((self._head, self._shown.json_at(length), closing, b"}"))


class ShownArguments:
    """The bytes of tool arguments, and how many of them form valid JSON once they are completed."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._characters = 0
        self._opening = ""  # the first character that is not white space
        self._kept = 0  # characters of the last cut
        self._length = 0  # the same in bytes

    def add(self, delta: str) -> None:
        self._opening = self._opening or delta.lstrip()[:1]
        self._characters += len(delta)
        # A line break would end the line of the record. In valid JSON it is white space, and a space is as long.
        self._bytes += delta.encode("utf-8", "replace").replace(b"\n", b" ").replace(b"\r", b" ")

    def cut(self, kept: int, closing: str) -> tuple[int, bytes]:
        """The length in bytes of the first `kept` characters, and what completes them to JSON."""
        if self._opening not in ("", "{"):
            kept, closing = 0, "{}"  # not an object: nothing of it can be shown as arguments
        if kept != self._kept:
            self._kept, self._length = kept, _byte_length(self._bytes, kept, self._characters)
        return self._length, closing.encode()

    def json_at(self, length: int) -> bytes:
        return escape_separators(bytes(self._bytes[:length]))


Block = TextBlock | ThinkingBlock | ToolCallBlock


def joined_signature(deltas: list[str]) -> str | UnsetType:
    return "".join(deltas) or UNSET


def _byte_length(text: bytearray, kept: int, characters: int) -> int:
    """Length in UTF-8 bytes of the first `kept` characters. Scans only from the end."""
    at = len(text)
    for _ in range(characters - kept):
        at -= 1
        while at and text[at] & 0xC0 == 0x80:
            at -= 1
    return at


def _parse_object(text: str) -> dict[str, object] | None:
    """Parse `text` as a JSON object; None if it is not one."""
    try:
        value = parse_text(text, MAX_RECEIVED_NESTING)
    except BadRecord:
        return None
    return value if isinstance(value, dict) else None
