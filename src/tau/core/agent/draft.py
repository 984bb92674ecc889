"""A message being written: pieces in, updates out.

Every provider's reader ends up here, so the shape and order of updates is
decided once. The draft is linear: pieces are kept in lists beside their
JSON-escaped bytes, and a snapshot is spliced from these only when somebody asks
for one. An Update remembers where the message stood when it was made (its
mark), so it may wait in a queue and still tell the truth when it is written.

Tool arguments are shown as far as they can be read (wire/unfinished.py is handed
in by the caller as `unfinished`, since core does not know wire). What runs in
the end is decided by a strict parse of the whole text: see `close` and `Done`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

from tau.core.models.pricing import priced
from tau.records.base import (
    MAX_RECEIVED_NESTING,
    UNSET,
    BadRecord,
    UnsetType,
    Value,
    decode,
    encode,
    field,
    one_line,
    parse_text,
    replace,
    wire,
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


class UnfinishedJson(Protocol):
    """The best value of JSON that is still coming in."""

    broken: bool

    def feed(self, piece: str) -> None: ...

    def cut(self) -> tuple[int, str]: ...

    def completed(self) -> str: ...

    @property
    def text(self) -> str: ...


class Begun(Value):
    """Fact: the model is being asked; `message` is empty."""

    message: Assistant


class Heard(Value):
    """Fact: the provider took the request and begins to answer. It may be left out where an Update says so."""


class Done(Value):
    """Fact: the answer is whole.

    `unreadable` has the raw text of tool calls whose arguments are no JSON
    object, by their place among the calls: models repeat ids.
    """

    message: Assistant
    unreadable: dict[int, str] = field(default_factory=dict)


class Failed(Value):
    """Fact: the answer ended badly. `transient` is None when only the text can tell."""

    message: Assistant
    transient: bool | None = None
    retry_after_ms: int | None = None


class Mark(Value):
    """How far the message had come: how many blocks, and for the open ones how much of each."""

    blocks: int
    open: tuple[tuple[int, int, bytes], ...]
    usage: bytes


class Block:
    """One content block: its text in pieces, and the same escaped for JSON."""

    def __init__(self, kind: Kind, head: bytes, tail: bytes, arguments: UnfinishedJson | None = None) -> None:
        self.kind = kind
        self.head = head
        self.tail = tail
        self.arguments = arguments
        self.pieces: list[str] = []
        self.escaped = bytearray()
        self.characters = 0
        self.opening = ""  # the first character of arguments
        self.signature: list[str] = []
        self.redacted = False
        self.unreadable = False
        self.closed = False
        self.sealed: Text | Thinking | ToolCall | None = None
        self._cut = (0, 0)  # characters kept, and how many bytes those are

    def add(self, piece: str) -> None:
        self.pieces.append(piece)
        if self.arguments is None:
            self.escaped += encode(piece)[1:-1]
        else:
            self.opening = self.opening or piece.lstrip()[:1]
            self.arguments.feed(piece)
            self.characters += len(piece)
            self.escaped += piece.encode("utf-8", "replace")

    def mark(self, index: int) -> tuple[int, int, bytes]:
        if self.arguments is None:
            return index, len(self.escaped), b""
        kept, closing = self.arguments.cut()
        if self.opening not in ("", "{"):
            kept, closing = 0, "{}"  # no object: nothing of it can be shown as arguments
        if kept != self._cut[0]:
            self._cut = kept, _bytes_of(self.escaped, kept, self.characters)
        return index, self._cut[1], closing.encode()

    def shown(self, length: int, closing: bytes) -> bytes:
        content = bytes(self.escaped[:length])
        if self.arguments is not None:
            content = one_line(content)
        return b"".join((self.head, content, closing, self.tail))


def _bytes_of(text: bytearray, kept: int, characters: int) -> int:
    """How many bytes of UTF-8 the first `kept` characters take; looks only at the end."""
    at = len(text)
    for _ in range(characters - kept):
        at -= 1
        while at and text[at] & 0xC0 == 0x80:
            at -= 1
    return at


class Draft:
    def __init__(self, model: Model, timestamp: int, unfinished: Callable[[], UnfinishedJson]) -> None:
        self.model = model
        names = encode(model.api), encode(model.provider), encode(model.id)
        self._origin = b'"api":%b,"provider":%b,"model":%b' % names  # the same in every snapshot
        self.timestamp = timestamp
        self._unfinished = unfinished
        self._blocks: list[Block] = []
        self._open: list[int] = []
        self._call_ids: set[str] = set()
        self._made_ids = 0
        self._response_id: str | None = None
        self.usage = Usage()
        self._usage_json = encode(self.usage)

    # What a reader tells. Each returns what a client shall be told.

    def begin(self) -> Begun:
        return Begun(self.message("stop"))

    def open(self, kind: Literal["text", "thinking"], signature: str = "") -> Update:
        """`signature` is for thinking that is signed from its first word on; others come later, by `sign`."""
        head, start = _OPENINGS[kind]
        block = Block(kind, head, b'","thinkingSignature":%b}' % encode(signature) if signature else b'"}')
        if signature:
            block.signature.append(signature)
        return self._update(start(self._begin(block)))

    def call_id(self, given: str, name: str) -> str:
        """`given`, unless the model forgot it or used it before in this answer: then one made for the call."""
        id = given
        while not id or id in self._call_ids:
            self._made_ids += 1
            id = f"{name}_{self.timestamp}_{self._made_ids}"
        return id

    def open_call(self, id: str, name: str) -> Update:
        self._call_ids.add(id)
        head = b'{"type":"toolCall","id":%b,"name":%b,"arguments":' % (encode(id), encode(name))
        index = self._begin(Block("toolCall", head, b"}", self._unfinished()))
        self._blocks[index].sealed = ToolCall(id, name, {})
        return self._update(ToolCallStart(index, id, name))

    def redacted(self, payload: str) -> list[Update]:
        """A thinking block we may not read, only hand back."""
        opened, at = self.open("thinking"), len(self._blocks) - 1
        self._blocks[at].redacted = True
        self.sign(at, payload)
        return [opened, self.add(at, REDACTED), self.close(at)]

    def add(self, index: int, piece: str) -> Update:
        block = self._blocks[index]
        block.add(piece)
        return self._update(_PIECES[block.kind](index, piece))

    def sign(self, index: int, piece: str) -> None:
        self._blocks[index].signature.append(piece)

    def missing(self, index: int, whole: str) -> str:
        """What of a block's `whole` text, which a provider tells at its end, has not come in pieces.

        Nothing if the pieces are no beginning of it: a client has read them, and they must add up to the text.
        """
        said = "".join(self._blocks[index].pieces)
        return whole[len(said) :] if whole.startswith(said) else ""

    def close(self, index: int) -> Update:
        block = self._blocks[index]
        self._open.remove(index)
        block.closed = True
        delta: AnyDelta
        if block.kind == "toolCall":
            call = self._whole_call(block)
            block.sealed, delta = call, ToolCallEnd(index, call)
        elif block.kind == "text":
            text = "".join(block.pieces)
            block.sealed, delta = Text(text, _signature(block)), TextEnd(index, text)
        else:
            text = "".join(block.pieces)
            sealed = Thinking(text, _signature(block), True if block.redacted else UNSET)
            block.sealed, delta = sealed, ThinkingEnd(index, text)
        return self._update(delta)

    def note(self, *, usage: Usage | None = None, response_id: str | None = None, times: float = 1) -> None:
        """`times` is by how much this answer costs more, or less, than usual."""
        if usage is not None:
            self.usage = _times(priced(usage, self.model.cost), times)
            self._usage_json = encode(self.usage)
        if response_id is not None:
            self._response_id = response_id

    def done(self, reason: StopReason) -> list[Update | Done]:
        """The answer is whole; blocks the provider forgot to close are closed."""
        closing: list[Update | Done] = [self.close(index) for index in list(self._open)]
        calls = [block for block in self._blocks if block.kind == "toolCall"]
        unreadable = {at: "".join(block.pieces) for at, block in enumerate(calls) if block.unreadable}
        return [*closing, Done(self.message(reason), unreadable)]

    def failed(
        self,
        reason: Literal["error", "aborted"],
        why: str,
        *,
        transient: bool | None = None,
        retry_after_ms: int | None = None,
    ) -> Failed:
        return Failed(self.message(reason, why), transient, retry_after_ms)

    # What others see.

    @property
    def blocks(self) -> int:
        return len(self._blocks)

    @property
    def calls(self) -> int:
        return sum(block.kind == "toolCall" for block in self._blocks)

    def closed(self, index: int) -> bool:
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
        """The JSON of the message as it stood at `mark`."""
        length = {index: (size, closing) for index, size, closing in mark.open}
        blocks = [
            block.shown(*length[index]) if index in length else _sealed(block)
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
            if block.closed or not block.pieces:
                return call
            return ToolCall(call.id, call.name, _object(block.arguments.completed()) or {})
        if block.sealed is not None:
            return block.sealed
        text = "".join(block.pieces)
        return Text(text) if block.kind == "text" else Thinking(text, _signature(block))

    def _whole_call(self, block: Block) -> ToolCall:
        call, arguments = block.sealed, block.arguments
        assert isinstance(call, ToolCall) and arguments is not None
        text = arguments.text
        # A call without arguments may come without any text.
        whole = _object(text) if text.strip() else {}
        if whole is None:
            # Never run what was cut or garbled, whatever a lenient reading of it would be.
            block.unreadable = True
            whole = _object(arguments.completed()) or {}
        return ToolCall(call.id, call.name, whole, _signature(block))


class Update:
    """One streamed piece, and where its message stood."""

    __slots__ = ("_draft", "_more", "delta", "mark", "weight")

    def __init__(self, draft: Draft, delta: AnyDelta, mark: Mark) -> None:
        self._draft = draft
        self._more: list[str] | None = None
        self.delta = delta
        self.mark = mark
        # About how much memory it holds while it waits.
        self.weight = len(delta.delta) if isinstance(delta, _JOINABLE) else 0

    def absorb(self, later: Update) -> bool:
        """Take in the next piece of the same block, if it is one: deltas join, the snapshot is the later one."""
        mine, its = self.delta, later.delta
        if type(mine) is not type(its) or not isinstance(mine, _JOINABLE) or later._draft is not self._draft:
            return False
        assert isinstance(its, _JOINABLE)
        if mine.content_index != its.content_index:
            return False
        if self._more is None:
            self._more = [mine.delta]
        self._more.append(its.delta)
        self.weight += later.weight
        self.mark = later.mark
        return True

    def _joined(self) -> AnyDelta:
        if self._more is not None:
            assert isinstance(self.delta, _JOINABLE)
            self.delta = replace(self.delta, delta="".join(self._more))
            self._more = None
        return self.delta

    def wire(self, *, snapshots: bool = True, extras: bool = True) -> bytes:
        """One message_update, with the message so far in both places where clients look for it.

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

    def record(self) -> MessageUpdate:
        """The same as a record, for those who read it in this process."""
        return decode(MessageUpdate, self.wire())

    def brief(self) -> MessageUpdate:
        """The same without the message so far, which `so_far` has for those who want it."""
        return MessageUpdate(self._joined(), usage=decode(Usage, self.mark.usage))

    def so_far(self) -> Assistant:
        """The message as it stood."""
        return decode(Assistant, self._draft.snapshot(self.mark))


_JOINABLE = (TextDelta, ThinkingDelta, ToolCallDelta)
_PIECES: dict[Kind, type[TextDelta | ThinkingDelta | ToolCallDelta]] = {
    "text": TextDelta,
    "thinking": ThinkingDelta,
    "toolCall": ToolCallDelta,
}
_OPENINGS: dict[str, tuple[bytes, type[TextStart | ThinkingStart]]] = {
    "text": (b'{"type":"text","text":"', TextStart),
    "thinking": (b'{"type":"thinking","thinking":"', ThinkingStart),
}


def _sealed(block: Block) -> bytes:
    if block.sealed is None:  # closed after the mark was made, which cannot be
        raise AssertionError("a block that is not open was never closed")
    return wire(block.sealed)


def _signature(block: Block) -> str | UnsetType:
    return "".join(block.signature) or UNSET


def _times(usage: Usage, factor: float) -> Usage:
    if factor == 1:
        return usage
    cost = usage.cost
    parts = (cost.input, cost.output, cost.cache_read, cost.cache_write, cost.total)
    return replace(usage, cost=UsageCost(*(part * factor for part in parts)))


def _object(text: str) -> dict[str, object] | None:
    """The JSON object that `text` is, or None."""
    try:
        value = parse_text(text, MAX_RECEIVED_NESTING)
    except BadRecord:
        return None
    return value if isinstance(value, dict) else None
