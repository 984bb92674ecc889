"""The assistant message that is being streamed: deltas in, updates out.

Every provider's reader writes to a Draft, so the shape and order of updates is decided in one place. The cost is
linear: blocks (blocks.py) keep their JSON-escaped bytes, and a snapshot is spliced from these bytes only on demand. An
Update remembers how long the message was when the update was made (its mark), so it can wait in a queue and is still
correct when it is written.

Tool arguments are shown as far as they can be parsed. The caller passes wire/unfinished.py as `unfinished`, since
core does not import wire. Whether a call runs is decided by a strict parse of the complete text: see
`ToolCallBlock.close` and `MessageDone`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from tau.core.agent.blocks import Block, BlockMark, TextBlock, ThinkingBlock, ToolCallBlock
from tau.core.models.pricing import with_cost
from tau.records.base import (
    UNSET,
    Value,
    decode,
    encode,
    field,
    replace,
    wire_json,
)
from tau.records.deltas import (
    AnyDelta,
    TextDelta,
    TextStart,
    ThinkingDelta,
    ThinkingStart,
    ToolCallDelta,
    ToolCallStart,
)
from tau.records.events import MessageUpdate
from tau.records.messages import Assistant, StopReason, Usage, UsageCost
from tau.records.models import Model

if TYPE_CHECKING:
    from tau.core.agent.blocks import PartialJsonParser

REDACTED = "[Reasoning redacted]"


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
    """Result: the answer failed. `transient` is None if only the error text can tell.

    `closing` ends the blocks that were open, for the APIs of `Draft.ends_blocks_on`.
    """

    message: Assistant
    transient: bool | None = None
    retry_after_ms: int | None = None
    closing: list[Update] = field(default_factory=list)


class Mark(Value):
    """Length of the message at one moment: the number of blocks, and how much of each open block existed."""

    blocks: int
    open_blocks: tuple[BlockMark, ...]
    usage: bytes


class Draft:
    """An assistant message under construction. Each method that a reader calls returns the update for the client."""

    def __init__(
        self,
        model: Model,
        timestamp: int,
        unfinished: Callable[[], PartialJsonParser],
        *,
        provider_details: bool = False,
    ) -> None:
        """`provider_details` keeps the provider's stop reason, and how long it caches what it wrote to its cache."""
        self.model = model
        self._provider_details = provider_details
        self._raw_stop_reason: str | None = None
        names = encode(model.api), encode(model.provider), encode(model.id)
        self._origin = b'"api":%b,"provider":%b,"model":%b' % names  # the same in every snapshot
        self.timestamp = timestamp
        self._unfinished = unfinished
        self._blocks: list[Block] = []
        self._open: list[Block] = []
        self._call_ids: set[str] = set()
        self._generated_ids = 0
        self._response_id: str | None = None
        self.usage = Usage()
        self._usage_json = encode(self.usage)
        # Failures after which open blocks get their `text_end`, as in pi. Its readers differ: set by those that do.
        self.ends_blocks_on: set[StopReason] = set()

    def begin(self) -> MessageBegun:
        return MessageBegun(self.message("stop"))

    def open(self, kind: Literal["text", "thinking"], signature: str = "") -> Update:
        """Open a block. `signature` is for thinking that is signed from its start; other signatures come later, by
        `add_signature`.
        """
        index = len(self._blocks)
        if kind == "text":
            return self._open_block(TextBlock(index), TextStart(index))
        return self._open_block(ThinkingBlock(index, signature), ThinkingStart(index))

    def call_id(self, provider_id: str, name: str) -> str:
        """`provider_id`, or a generated id if the model omitted it or already used it in this answer."""
        id = provider_id
        while not id or id in self._call_ids:
            self._generated_ids += 1
            id = f"{name}_{self.timestamp}_{self._generated_ids}"
        return id

    def open_call(self, id: str, name: str) -> Update:
        self._call_ids.add(id)
        index = len(self._blocks)
        block = ToolCallBlock(index, id, name, self._unfinished())
        return self._open_block(block, ToolCallStart(index, id, name))

    def add_redacted(self, payload: str) -> list[Update]:
        """Add a thinking block whose content is encrypted: it can only be sent back to the provider."""
        at = len(self._blocks)
        opened = self._open_block(ThinkingBlock(at, redacted=True), ThinkingStart(at))
        self.add_signature(at, payload)
        return [opened, self.add(at, REDACTED), self.close(at)]

    def add(self, index: int, delta: str) -> Update:
        return self._update(self._blocks[index].add(delta))

    def add_signature(self, index: int, delta: str) -> None:
        self._blocks[index].signature.append(delta)

    def sign_thinking(self, index: int, signature: str) -> None:
        """Set the signature of a block of thinking, which may be closed: some servers sign when the answer ends."""
        block = self._blocks[index]
        assert isinstance(block, ThinkingBlock)
        block.sign(signature)

    def missing_tail(self, index: int, text: str) -> str:
        """The part of `text`, a block's text as the provider repeats it at the end, that was not streamed.

        Empty if the streamed deltas are not a prefix of `text`: a client has read them, and they must add up to the
        text.
        """
        streamed = self.streamed(index)
        return text[len(streamed) :] if text.startswith(streamed) else ""

    def streamed(self, index: int) -> str:
        """The text of a block, or of the arguments of a call, as it has arrived."""
        return "".join(self._blocks[index].deltas)

    def close(self, index: int) -> Update:
        block = self._blocks[index]
        self._open.remove(block)
        return self._update(block.close())

    def set_usage(self, *, usage: Usage | None = None, response_id: str | None = None, times: float = 1) -> None:
        """Set usage and response id. `times` is the price factor of this answer (service tiers cost more or less)."""
        if usage is not None:
            if not self._provider_details and usage.cache_write_1h is not UNSET:
                usage = replace(usage, cache_write_1h=UNSET)
            self.usage = _scale_cost(with_cost(usage, self.model.cost), times)
            self._usage_json = encode(self.usage)
        if response_id is not None:
            self._response_id = response_id

    def set_raw_stop_reason(self, reason: str) -> None:
        """Set the stop reason in the provider's words, also if it means a failure."""
        if self._provider_details:
            self._raw_stop_reason = reason

    def finish(self, reason: StopReason) -> list[Update | MessageDone]:
        """Complete the answer and close the blocks that the provider left open."""
        closing: list[Update | MessageDone] = [self.close(block.index) for block in list(self._open)]
        calls = [block for block in self._blocks if isinstance(block, ToolCallBlock)]
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
        ends = reason in self.ends_blocks_on
        closing = [self.close(block.index) for block in list(self._open)] if ends else []
        return MessageFailed(self.message(reason, why), transient, retry_after_ms, closing)

    @property
    def block_count(self) -> int:
        return len(self._blocks)

    @property
    def call_count(self) -> int:
        return sum(isinstance(block, ToolCallBlock) for block in self._blocks)

    def is_closed(self, index: int) -> bool:
        return self._blocks[index].sealed is not None

    def message(self, reason: StopReason, why: str | None = None) -> Assistant:
        model = self.model
        return Assistant(
            [block.content() for block in self._blocks],
            model.api,
            model.provider,
            model.id,
            self.usage,
            reason,
            self.timestamp,
            error_message=UNSET if why is None else why,
            response_id=UNSET if self._response_id is None else self._response_id,
            raw_stop_reason=UNSET if self._raw_stop_reason is None else self._raw_stop_reason,
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

    def _open_block(self, block: Block, delta: AnyDelta) -> Update:
        self._blocks.append(block)
        self._open.append(block)
        return self._update(delta)

    def _update(self, delta: AnyDelta) -> Update:
        blocks = self._open
        at = (blocks[0].mark(),) if len(blocks) == 1 else tuple([block.mark() for block in blocks])
        return Update(self, delta, Mark(len(self._blocks), at, self._usage_json))


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

    def copy(self) -> Update:
        """An update that may absorb others while this one stays as it is."""
        made = Update(self._draft, self.delta, self.mark)
        made._more, made.weight = None if self._more is None else [*self._more], self.weight
        return made

    def joins(self, later: Update) -> bool:
        """True if `later` is the next delta of the same block, so that `absorb` can merge it."""
        first, second = self.delta, later.delta
        if type(first) is not type(second) or not isinstance(first, _JOINABLE) or later._draft is not self._draft:
            return False
        assert isinstance(second, _JOINABLE)
        return first.content_index == second.content_index

    def absorb(self, later: Update) -> bool:
        """Merge the next delta of the same block: deltas are joined, the later mark wins. Return False if it cannot
        be merged.
        """
        if not self.joins(later):
            return False
        first, second = self.delta, later.delta
        assert isinstance(first, _JOINABLE) and isinstance(second, _JOINABLE)
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

    def wire_json(self, *, snapshots: bool = True, usage: bool = True, tool_names: bool = True) -> bytes:
        """The message_update event as JSON, with the message so far in both places where clients look for it.

        `tool_names`: the first delta of a tool call has its id and name.
        """
        joined = self._joined()
        if tool_names or not isinstance(joined, ToolCallStart):
            delta = encode(joined)
        else:
            delta = b'{"type":"toolcall_start","contentIndex":%d}' % joined.content_index
        if not snapshots:
            counted = b'"usage":%b,' % self.mark.usage if usage else b""
            return b'{"type":"message_update",%b"assistantMessageEvent":%b}' % (counted, delta)
        so_far = self._draft.snapshot(self.mark)
        return b"".join(
            (
                b'{"type":"message_update","assistantMessageEvent":',
                delta[:-1],
                b',"partial":',
                so_far,
                b'},"message":',
                so_far,
                b',"usage":' if usage else b"",
                self.mark.usage if usage else b"",
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
        return decode(Assistant, self.snapshot_json())

    def snapshot_json(self) -> bytes:
        """The same as JSON."""
        return self._draft.snapshot(self.mark)


_JOINABLE = (TextDelta, ThinkingDelta, ToolCallDelta)


def _sealed_json(block: Block) -> bytes:
    if block.sealed is None:  # impossible: it would have been closed after the mark was made
        raise AssertionError("a block that is not open was never closed")
    return wire_json(block.sealed)


def _scale_cost(usage: Usage, factor: float) -> Usage:
    if factor == 1:
        return usage
    cost = usage.cost
    parts = (cost.input, cost.output, cost.cache_read, cost.cache_write, cost.total)
    return replace(usage, cost=UsageCost(*(part * factor for part in parts)))
