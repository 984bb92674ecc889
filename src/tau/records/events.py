"""What happens: everything a client sees that it did not ask for."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from tau.records.base import UNSET, Record, UnsetType, encode, wire
from tau.records.deltas import AnyDelta
from tau.records.messages import AnyMessage, Assistant, Image, Text, ToolResult, Usage
from tau.records.models import ThinkingLevel

CompactionReason = Literal["manual", "threshold", "overflow"]

Limit = Literal["turns", "tokens", "cost", "time"]


class Outcome(Record):
    """What a tool hands back: content for the model, details for the client."""

    content: list[Text | Image]
    details: Any = UNSET


class CompactionResult(Record):
    """`usage` is what the summary took; `estimatedTokensAfter` about how much the conversation takes now."""

    summary: str
    first_kept_entry_id: str
    tokens_before: int
    details: Any = UNSET
    estimated_tokens_after: int | UnsetType = UNSET
    usage: Usage | UnsetType = UNSET
    timestamp: str | UnsetType = UNSET
    first_kept_entry_index: int | UnsetType = UNSET


class Event(Record, tag_field="type"):
    """Base of everything published. `carries` names the fields that hold messages."""

    carries: ClassVar[tuple[str, ...]] = ()


class AgentStart(Event, tag="agent_start"):
    """The agent begins to work on a prompt."""


class AgentEnd(Event, tag="agent_end"):
    """One run is over; `messages` are all that it made. With `willRetry` another follows."""

    carries = ("messages",)
    messages: list[AnyMessage]
    will_retry: bool = False


class AgentSettled(Event, tag="agent_settled"):
    """Nothing automatic (retry, compaction) is left to do for this prompt."""

    aborted: bool = False


class TurnStart(Event, tag="turn_start"):
    """A turn begins: one answer of the model and the tools it calls."""


class TurnEnd(Event, tag="turn_end"):
    carries = ("message", "tool_results")
    message: Assistant
    tool_results: list[ToolResult]


class MessageStart(Event, tag="message_start"):
    carries = ("message",)
    message: AnyMessage


class MessageUpdate(Event, tag="message_update"):
    """A piece of the answer arrived."""

    assistant_message_event: AnyDelta
    message: Assistant | UnsetType = UNSET
    usage: Usage | UnsetType = UNSET


class MessageEnd(Event, tag="message_end"):
    carries = ("message",)
    message: AnyMessage


class ToolStart(Event, tag="tool_execution_start"):
    tool_call_id: str
    tool_name: str
    args: Any


class ToolUpdate(Event, tag="tool_execution_update"):
    """`partialResult` holds everything so far, not only what is new."""

    tool_call_id: str
    tool_name: str
    args: Any
    partial_result: Outcome


class ToolEnd(Event, tag="tool_execution_end"):
    """`durationMs` is absent if the tool did not run."""

    tool_call_id: str
    tool_name: str
    result: Outcome
    is_error: bool
    duration_ms: int | UnsetType = UNSET


class QueueUpdate(Event, tag="queue_update"):
    """The texts that wait to be delivered, whole, after each change."""

    steering: list[str]
    follow_up: list[str]


class CompactionStart(Event, tag="compaction_start"):
    """The older part of the conversation is about to be replaced by a summary."""

    reason: CompactionReason


class CompactionEnd(Event, tag="compaction_end"):
    """`result` is `null` if nothing was changed. With `willRetry` the prompt that did not fit is asked again."""

    reason: CompactionReason
    result: CompactionResult | None
    aborted: bool
    will_retry: bool
    error_message: str | UnsetType = UNSET


class AutoRetryStart(Event, tag="auto_retry_start"):
    attempt: int
    max_attempts: int
    delay_ms: int
    error_message: str


class AutoRetryEnd(Event, tag="auto_retry_end"):
    success: bool
    attempt: int
    final_error: str | UnsetType = UNSET


class SessionInfoChanged(Event, tag="session_info_changed"):
    """The session has another name."""

    name: str | UnsetType = UNSET


class ThinkingLevelChanged(Event, tag="thinking_level_changed"):
    level: ThinkingLevel


class BashUpdate(Event, tag="bash_execution_update"):
    """What a `bash` command says while it runs; `id` is the command's, if it had one."""

    delta: str
    id: Any = UNSET


class BudgetExceeded(Event, tag="budget_exceeded"):
    """A limit ended the work on this prompt. Told before the last `agent_end`, or else before `agent_settled`.

    With `costUnknown`, some answers were by a model whose price nobody knows.
    """

    limit: Limit
    used: float
    allowed: float
    cost_unknown: bool | UnsetType = UNSET


class StructuredOutput(Event, tag="structured_output"):
    """What a prompt with `outputSchema` came to, once for each: the `value`, or the `error` for which there is none."""

    value: Any = UNSET
    error: str | UnsetType = UNSET


class SessionDamaged(Event, tag="session_damaged"):
    """The session file holds what cannot be read. The rest was opened; the file is left as it is."""

    session_file: str
    problems: list[str]


class SessionWriteFailed(Event, tag="session_write_failed"):
    """`waiting` entries could not be written. They are kept in order and written when that is possible again."""

    session_file: str
    error: str
    waiting: int


class SessionWriteRecovered(Event, tag="session_write_recovered"):
    """Everything that waited is in the session file now."""

    session_file: str


class ExtensionError(Event, tag="extension_error"):
    extension_path: str
    event: str
    error: str


AnyEvent = (
    AgentStart
    | AgentEnd
    | AgentSettled
    | TurnStart
    | TurnEnd
    | MessageStart
    | MessageUpdate
    | MessageEnd
    | ToolStart
    | ToolUpdate
    | ToolEnd
    | QueueUpdate
    | CompactionStart
    | CompactionEnd
    | AutoRetryStart
    | AutoRetryEnd
    | SessionInfoChanged
    | ThinkingLevelChanged
    | BashUpdate
    | BudgetExceeded
    | StructuredOutput
    | SessionDamaged
    | SessionWriteFailed
    | SessionWriteRecovered
    | ExtensionError
)


def event_json(event: Event) -> bytes:
    """An event as it is sent. Messages are spliced from the bytes they were read from or once encoded to."""
    if not event.carries:
        return encode(event)
    parts = []
    for name, wire_name in zip(event.__struct_fields__, event.__struct_encode_fields__, strict=True):
        value = getattr(event, name)
        if name not in event.carries:
            body = encode(value)
        elif isinstance(value, list):
            body = b"[%b]" % b",".join(map(wire, value))
        else:
            body = wire(value)
        parts.append(b',"%b":%b' % (wire_name.encode(), body))
    return b'{"type":%b%b}' % (encode(event.__struct_config__.tag), b"".join(parts))
