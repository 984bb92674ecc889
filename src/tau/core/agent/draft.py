"""The assistant message that is being streamed: deltas in, updates out.

Every provider's reader writes to a Draft, so the shape and order of updates is decided in one place. The cost is
linear: deltas are kept in lists next to their JSON-escaped bytes, and a snapshot is spliced from these bytes only on
demand. An Update remembers how long the message was when the update was made (its mark), so it can wait in a queue
and is still correct when it is written.

Tool arguments are shown as far as they can be parsed. The caller passes wire/unfinished.py as `unfinished`, since
core does not import wire. Whether a call runs is decided by a strict parse of the complete text: see `close` and
`MessageDone`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

from tau.core.models.pricing import with_cost
from tau.records.base import (
    MAX_RECEIVED_NESTING,
    UNSET,
    BadRecord,
    UnsetType,
    Value,
    decode,
    encode,
    escape_separators,
    field,
    parse_text,
    replace,
    wire_json,
)
from tau.records.deltas import (
    AnyDelta,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from tau.records.events import MessageUpdate
from tau.records.messages import Assistant, StopReason, Text, Thinking, ToolCall, Usage, UsageCost
from tau.records.models import Model

Kind = Literal["text", "thinking", "toolCall"]
REDACTED = "[Reasoning redacted]"


class PartialJsonParser(Protocol):
    """Parser for JSON that is still arriving: the best value so far."""

    broken: bool

    def feed(self, delta: str) -> None: ...

    def safe_prefix(self) -> tuple[int, str]: ...

    def completed(self) -> str: ...

    @property
    def text(self) -> str: ...


class MessageBegun(Value):
    """Result: the model is being asked; `message` is empty."""

    message: Assistant


class ResponseStarted(Value):
    """Result: the provider accepted the request and begins to answer. Optional where an Update follows at once."""


class MessageDone(Value):
    """Result: the answer is complete.

    `unreadable` is the raw text of tool calls whose arguments are not a JSON object, by their position among the
    calls: models repeat ids.
    """

    message: Assistant
    unreadable: dict[int, str] = field(default_factory=dict)


class MessageFailed(Value):
    """Result: the answer failed. `transient` is None if only the error text can tell."""

    message: Assistant
    transient: bool | None = None
    retry_after_ms: int | None = None


class Mark(Value):
    """Length of the message at one moment: the number of blocks, and how much of each open block existed."""

    blocks: int
    open_blocks: tuple[tuple[int, int, bytes], ...]
    usage: bytes


class Block:
    """One content block: its text as deltas, and the same text escaped for JSON."""

    def __init__(self, kind: Kind, head: bytes, tail: bytes, arguments: PartialJsonParser | None = None) -> None:
        self.kind = kind
        self.head = head
        self.tail = tail
        self.arguments = arguments
        self.deltas: list[str] = []
        self.escaped = bytearray()
        self.characters = 0
        self.opening = ""  # the first character of the arguments
        self.signature: list[str] = []
        self.redacted = False
        self.unreadable = False
        self.closed = False
        self.sealed: Text | Thinking | ToolCall | None = None
        self._cut = (0, 0)  # number of characters that can be shown, and of their bytes

    def add(self, delta: str) -> None:
        self.deltas.append(delta)
        if self.arguments is None:
            self.escaped += encode(delta)[1:-1]
        else:
            self.opening = self.opening or delta.lstrip()[:1]
            self.arguments.feed(delta)
            self.characters += len(delta)
            self.escaped += delta.encode("utf-8", "replace")

    def mark(self, index: int) -> tuple[int, int, bytes]:
        if self.arguments is None:
            return index, len(self.escaped), b""
        shown, closing = self.arguments.safe_prefix()
        if self.opening not in ("", "{"):
            shown, closing = 0, "{}"  # not an object: nothing of it can be shown as arguments
        if shown != self._cut[0]:
            self._cut = shown, _byte_length(self.escaped, shown, self.characters)
        return index, self._cut[1], closing.encode()

    def json_at(self, length: int, closing: bytes) -> bytes:
        content = bytes(self.escaped[:length])
        if self.arguments is not None:
            content = escape_separators(content)
        return b"".join((self.head, content, closing, self.tail))


def _byte_length(text: bytearray, count: int, characters: int) -> int:
    """Length in UTF-8 bytes of the first `count` characters. Scans only from the end."""
    at = len(text)
    for _ in range(characters - count):
        at -= 1
        while at and text[at] & 0xC0 == 0x80:
            at -= 1
    return at


class Draft:
    """An assistant message under construction. Each method that a reader calls returns the update for the client."""

    def __init__(self, model: Model, timestamp: int, unfinished: Callable[[], PartialJsonParser]) -> None:
        self.model = model
        names = encode(model.api), encode(model.provider), encode(model.id)
        self._origin = b'"api":%b,"provider":%b,"model":%b' % names  # the same in every snapshot
        self.timestamp = timestamp
        self._unfinished = unfinished
        self._blocks: list[Block] = []
        self._open: list[int] = []
        self._call_ids: set[str] = set()
        self._generated_ids = 0
        self._response_id: str | None = None
        self.usage = Usage()
        self._usage_json = encode(self.usage)

    def begin(self) -> MessageBegun:
        return MessageBegun(self.message("stop"))

    def open(self, kind: Literal["text", "thinking"], signature: str = "") -> Update:
        """Open a block. `signature` is for thinking that is signed from its start; other signatures come later, by
        `add_signature`.
        """
        head, start = _OPENINGS[kind]
        block = Block(kind, head, b'","thinkingSignature":%b}' % encode(signature) if signature else b'"}')
        if signature:
            block.signature.append(signature)
        return self._update(start(self._begin(block)))

    def call_id(self, provider_id: str, name: str) -> str:
        """`provider_id`, or a generated id if the model omitted it or already used it in this answer."""
        id = provider_id
        while not id or id in self._call_ids:
            self._generated_ids += 1
            id = f"{name}_{self.timestamp}_{self._generated_ids}"
        return id

    def open_call(self, id: str, name: str) -> Update:
        self._call_ids.add(id)
        head = b'{"type":"toolCall","id":%b,"name":%b,"arguments":' % (encode(id), encode(name))
        index = self._begin(Block("toolCall", head, b"}", self._unfinished()))
        self._blocks[index].sealed = ToolCall(id, name, {})
        return self._update(ToolCallStart(index, id, name))

    def add_redacted(self, payload: str) -> list[Update]:
        """Add a thinking block whose content is encrypted: it can only be sent back to the provider."""
        opened, at = self.open("thinking"), len(self._blocks) - 1
        self._blocks[at].redacted = True
        self.add_signature(at, payload)
        return [opened, self.add(at, REDACTED), self.close(at)]

    def add(self, index: int, delta: str) -> Update:
        block = self._blocks[index]
        block.add(delta)
        return self._update(_DELTA_TYPES[block.kind](index, delta))

    def add_signature(self, index: int, delta: str) -> None:
        self._blocks[index].signature.append(delta)

    def missing_tail(self, index: int, text: str) -> str:
        """The part of `text`, a block's text as the provider repeats it at the end, that was not streamed.

        Empty if the streamed deltas are not a prefix of `text`: a client has read them, and they must add up to the
        text.
        """
        streamed = "".join(self._blocks[index].deltas)
        return text[len(streamed) :] if text.startswith(streamed) else ""

    def close(self, index: int) -> Update:
        block = self._blocks[index]
        self._open.remove(index)
        block.closed = True
        delta: AnyDelta
        if block.kind == "toolCall":
            call = self._parse_call(block)
            block.sealed, delta = call, ToolCallEnd(index, call)
        elif block.kind == "text":
            text = "".join(block.deltas)
            block.sealed, delta = Text(text, _signature(block)), TextEnd(index, text)
        else:
            text = "".join(block.deltas)
            sealed = Thinking(text, _signature(block), True if block.redacted else UNSET)
            block.sealed, delta = sealed, ThinkingEnd(index, text)
        return self._update(delta)

    def set_usage(self, *, usage: Usage | None = None, response_id: str | None = None, times: float = 1) -> None:
        """Set usage and response id. `times` is the price factor of this answer (service tiers cost more or less)."""
        if usage is not None:
            self.usage = _scale_cost(with_cost(usage, self.model.cost), times)
            self._usage_json = encode(self.usage)
        if response_id is not None:
            self._response_id = response_id

    def finish(self, reason: StopReason) -> list[Update | MessageDone]:
        """Complete the answer and close the blocks that the provider left open."""
        closing: list[Update | MessageDone] = [self.close(index) for index in list(self._open)]
        calls = [block for block in self._blocks if block.kind == "toolCall"]
        unreadable = {at: "".join(block.deltas) for at, block in enumerate(calls) if block.unreadable}
        return [*closing, MessageDone(self.message(reason), unreadable)]

    def fail(
        self,
        reason: Literal["error", "aborted"],
        why: str,
        *,
        transient: bool | None = None,
        retry_after_ms: int | None = None,
    ) -> MessageFailed:
        return MessageFailed(self.message(reason, why), transient, retry_after_ms)

    @property
    def block_count(self) -> int:
        return len(self._blocks)

    @property
    def call_count(self) -> int:
        return sum(block.kind == "toolCall" for block in self._blocks)

    def is_closed(self, index: int) -> bool:
        return self._blocks[index].closed

    def message(self, reason: StopReason, why: str | None = None) -> Assistant:
        model = self.model
        return Assistant(
            [self._content(block) for block in self._blocks],
            model.api,
            model.provider,
            model.id,
            self.usage,
            reason,
            self.timestamp,
            error_message=UNSET if why is None else why,
            response_id=UNSET if self._response_id is None else self._response_id,
        )

    def snapshot(self, mark: Mark) -> bytes:
        """JSON of the message as it was at `mark`."""
        length = {index: (size, closing) for index, size, closing in mark.open_blocks}
        blocks = [
            block.json_at(*length[index]) if index in length else _sealed_json(block)
            for index, block in enumerate(self._blocks[: mark.blocks])
        ]
        return b'{"role":"assistant","content":[%b],%b,"usage":%b,"stopReason":"stop","timestamp":%d}' % (
            b",".join(blocks),
            self._origin,
            mark.usage,
            self.timestamp,
        )

    def _begin(self, block: Block) -> int:
        self._blocks.append(block)
        self._open.append(len(self._blocks) - 1)
        return len(self._blocks) - 1

    def _update(self, delta: AnyDelta) -> Update:
        at = tuple(self._blocks[index].mark(index) for index in self._open)
        return Update(self, delta, Mark(len(self._blocks), at, self._usage_json))

    def _content(self, block: Block) -> Text | Thinking | ToolCall:
        if block.kind == "toolCall":
            call = block.sealed
            assert isinstance(call, ToolCall) and block.arguments is not None
            if block.closed or not block.deltas:
                return call
            return ToolCall(call.id, call.name, _parse_object(block.arguments.completed()) or {})
        if block.sealed is not None:
            return block.sealed
        text = "".join(block.deltas)
        return Text(text) if block.kind == "text" else Thinking(text, _signature(block))

    def _parse_call(self, block: Block) -> ToolCall:
        call, arguments = block.sealed, block.arguments
        assert isinstance(call, ToolCall) and arguments is not None
        text = arguments.text
        # Providers may send no text at all for a call without arguments.
        parsed = _parse_object(text) if text.strip() else {}
        if parsed is None:
            # Never run a truncated or garbled call, even if a lenient parse would accept it.
            block.unreadable = True
            parsed = _parse_object(arguments.completed()) or {}
        return ToolCall(call.id, call.name, parsed, _signature(block))


class Update:
    """One streamed delta, with a mark of its message at that moment."""

    __slots__ = ("_draft", "_more", "delta", "mark", "weight")

    def __init__(self, draft: Draft, delta: AnyDelta, mark: Mark) -> None:
        self._draft = draft
        self._more: list[str] | None = None
        self.delta = delta
        self.mark = mark
        # Approximate memory held while the update is queued.
        self.weight = len(delta.delta) if isinstance(delta, _JOINABLE) else 0

    def absorb(self, later: Update) -> bool:
        """Merge the next delta of the same block: deltas are joined, the later mark wins. Return False if it cannot
        be merged.
        """
        first, second = self.delta, later.delta
        if type(first) is not type(second) or not isinstance(first, _JOINABLE) or later._draft is not self._draft:
            return False
        assert isinstance(second, _JOINABLE)
        if first.content_index != second.content_index:
            return False
        if self._more is None:
            self._more = [first.delta]
        self._more.append(second.delta)
        self.weight += later.weight
        self.mark = later.mark
        return True

    def _joined(self) -> AnyDelta:
        if self._more is not None:
            assert isinstance(self.delta, _JOINABLE)
            self.delta = replace(self.delta, delta="".join(self._more))
            self._more = None
        return self.delta

    def wire_json(self, *, snapshots: bool = True, extras: bool = True) -> bytes:
        """The message_update event as JSON, with the message so far in both places where clients look for it.

        `extras` are `usage`, and the id and name of a tool in its first delta.
        """
        joined = self._joined()
        if extras or not isinstance(joined, ToolCallStart):
            delta = encode(joined)
        else:
            delta = b'{"type":"toolcall_start","contentIndex":%d}' % joined.content_index
        if not snapshots:
            return b'{"type":"message_update","usage":%b,"assistantMessageEvent":%b}' % (self.mark.usage, delta)
        so_far = self._draft.snapshot(self.mark)
        return b"".join(
            (
                b'{"type":"message_update","assistantMessageEvent":',
                delta[:-1],
                b',"partial":',
                so_far,
                b'},"message":',
                so_far,
                b',"usage":' if extras else b"",
                self.mark.usage if extras else b"",
                b"}",
            )
        )

    def to_record(self) -> MessageUpdate:
        """The event as a record, for readers in this process."""
        return decode(MessageUpdate, self.wire_json())

    def without_snapshot(self) -> MessageUpdate:
        """The event as a record without the message so far, which `partial_message` returns on demand."""
        return MessageUpdate(self._joined(), usage=decode(Usage, self.mark.usage))

    def partial_message(self) -> Assistant:
        """The message as it was at the mark."""
        return decode(Assistant, self._draft.snapshot(self.mark))


_JOINABLE = (TextDelta, ThinkingDelta, ToolCallDelta)
_DELTA_TYPES: dict[Kind, type[TextDelta | ThinkingDelta | ToolCallDelta]] = {
    "text": TextDelta,
    "thinking": ThinkingDelta,
    "toolCall": ToolCallDelta,
}
_OPENINGS: dict[str, tuple[bytes, type[TextStart | ThinkingStart]]] = {
    "text": (b'{"type":"text","text":"', TextStart),
    "thinking": (b'{"type":"thinking","thinking":"', ThinkingStart),
}


def _sealed_json(block: Block) -> bytes:
    if block.sealed is None:  # impossible: it would have been closed after the mark was made
        raise AssertionError("a block that is not open was never closed")
    return wire_json(block.sealed)


def _signature(block: Block) -> str | UnsetType:
    return "".join(block.signature) or UNSET


def _scale_cost(usage: Usage, factor: float) -> Usage:
    if factor == 1:
        return usage
    cost = usage.cost
    parts = (cost.input, cost.output, cost.cache_read, cost.cache_write, cost.total)
    return replace(usage, cost=UsageCost(*(part * factor for part in parts)))


def _parse_object(text: str) -> dict[str, object] | None:
    """Parse `text` as a JSON object; None if it is not one."""
    try:
        value = parse_text(text, MAX_RECEIVED_NESTING)
    except BadRecord:
        return None
    return value if isinstance(value, dict) else None
