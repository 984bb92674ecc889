"""Events: everything that is sent to a client without a request."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from tau.records.base import UNSET, Record, UnsetType, encode, wire_json
from tau.records.deltas import AnyDelta
from tau.records.messages import AnyMessage, Assistant, Image, Text, ToolResult, Usage
from tau.records.models import ThinkingLevel

CompactionReason = Literal["manual", "threshold", "overflow"]

Limit = Literal["turns", "tokens", "cost", "time", "stuck"]


class Outcome(Record):
    """The result of a tool: `content` is for the model, `details` for the client.

    With `terminate`, a tool of an extension ends the run: the model is not asked again.
    """

    content: list[Text | Image]
    details: Any = UNSET
    terminate: bool | UnsetType = UNSET


class CompactionResult(Record):
    """`usage` is the cost of writing the summary; `estimatedTokensAfter` is the approximate size of the conversation
    now.
    """

    summary: str
    first_kept_entry_id: str
    tokens_before: int
    details: Any = UNSET
    estimated_tokens_after: int | UnsetType = UNSET
    usage: Usage | UnsetType = UNSET
    timestamp: str | UnsetType = UNSET
    first_kept_entry_index: int | UnsetType = UNSET


class Event(Record, tag_field="type"):
    """Base class of events. `carries` names the fields that hold messages."""

    carries: ClassVar[tuple[str, ...]] = ()


class AgentStart(Event, tag="agent_start"):
    """The agent starts working on a prompt."""


class AgentEnd(Event, tag="agent_end"):
    """A run has ended; `messages` are all messages that it produced. With `willRetry`, another run follows."""

    carries = ("messages",)
    messages: list[AnyMessage]
    will_retry: bool = False


class AgentSettled(Event, tag="agent_settled"):
    """The prompt is finished: no automatic retry or compaction is left to do."""

    aborted: bool = False


class TurnStart(Event, tag="turn_start"):
    """A turn starts: one assistant message and the tool calls in it."""


class TurnEnd(Event, tag="turn_end"):
    """A turn has ended. `toolResults` are in the order of the tool calls."""

    carries = ("message", "tool_results")
    message: Assistant
    tool_results: list[ToolResult]


class MessageStart(Event, tag="message_start"):
    """A message starts. An assistant message is then streamed by `message_update` events."""

    carries = ("message",)
    message: AnyMessage


class MessageUpdate(Event, tag="message_update"):
    """A piece of the assistant message arrived."""

    assistant_message_event: AnyDelta
    message: Assistant | UnsetType = UNSET
    usage: Usage | UnsetType = UNSET


class MessageEnd(Event, tag="message_end"):
    """The message is complete."""

    carries = ("message",)
    message: AnyMessage


class ToolStart(Event, tag="tool_execution_start"):
    """A tool call starts."""

    tool_call_id: str
    tool_name: str
    args: Any


class ToolUpdate(Event, tag="tool_execution_update"):
    """Progress of a tool call. `partialResult` holds everything so far, not only what is new."""

    tool_call_id: str
    tool_name: str
    args: Any
    partial_result: Outcome


class ToolEnd(Event, tag="tool_execution_end"):
    """A tool call has ended. `durationMs` is absent if the tool did not run, and in some dialects."""

    tool_call_id: str
    tool_name: str
    result: Outcome
    is_error: bool
    duration_ms: int | UnsetType = UNSET


class ToolRequest(Event, tag="tool_request"):
    """The model calls a tool of this client, which answers with `tool_result`. `timeout` is in milliseconds."""

    id: str
    tool_call_id: str
    tool_name: str
    arguments: dict[str, Any]
    timeout: int | UnsetType = UNSET


class ToolRequestCancelled(Event, tag="tool_request_cancelled"):
    """The result of a tool request is no longer needed: the run was aborted, the time is over, or the session was
    left.
    """

    id: str
    reason: Literal["aborted", "timeout", "session"]


class QueueUpdate(Event, tag="queue_update"):
    """The queues changed. Contains the texts of all queued messages."""

    steering: list[str]
    follow_up: list[str]


class CompactionStart(Event, tag="compaction_start"):
    """Compaction starts: the older part of the conversation is being replaced by a summary."""

    reason: CompactionReason


class CompactionEnd(Event, tag="compaction_end"):
    """Compaction has ended. `result` is `null` if nothing was changed. With `willRetry`, the prompt that did not fit
    is sent to the model again.
    """

    reason: CompactionReason
    result: CompactionResult | None
    aborted: bool
    will_retry: bool
    error_message: str | UnsetType = UNSET


class AutoRetryStart(Event, tag="auto_retry_start"):
    """A model call failed with a transient error and is retried after `delayMs`."""

    attempt: int
    max_attempts: int
    delay_ms: int
    error_message: str


class AutoRetryEnd(Event, tag="auto_retry_end"):
    """Retrying has ended. `finalError` is the last error if no retry succeeded."""

    success: bool
    attempt: int
    final_error: str | UnsetType = UNSET


class EntryAppended(Event, tag="entry_appended"):
    """An entry was added to the session outside of a message: state of an extension, or the removal of a failed
    answer from the conversation (`context_edit`). `entry` is the entry as the session file has it.
    """

    entry: Any


class SessionInfoChanged(Event, tag="session_info_changed"):
    """The name of the session changed."""

    name: str | UnsetType = UNSET


class ThinkingLevelChanged(Event, tag="thinking_level_changed"):
    """The thinking level of the session changed."""

    level: ThinkingLevel


class BashUpdate(Event, tag="bash_execution_update"):
    """Output of a running `bash` command. `id` is the id of the command, if it had one."""

    delta: str
    id: Any = UNSET


class BudgetExceeded(Event, tag="budget_exceeded"):
    """A budget limit ended the work on this prompt. Sent before the last `agent_end`, or else before `agent_settled`.

    `costUnknown` is set if the price of a model that was used is not known. `stuck` counts answers in a row whose tool
    calls all failed in the same way; the setting `stuckAfter` limits them.
    """

    limit: Limit
    used: float
    allowed: float
    cost_unknown: bool | UnsetType = UNSET


class StructuredOutput(Event, tag="structured_output"):
    """The result of a prompt with `outputSchema`, once per prompt: the `value`, or the `error` if there is none."""

    value: Any = UNSET
    error: str | UnsetType = UNSET


class SessionDamaged(Event, tag="session_damaged"):
    """Parts of the session file cannot be read. The rest was loaded; the file is not modified."""

    session_file: str
    problems: list[str]


class SessionWriteFailed(Event, tag="session_write_failed"):
    """`waiting` entries could not be written to the session file. They are kept in order and written when writing
    succeeds again.
    """

    session_file: str
    error: str
    waiting: int


class SessionWriteRecovered(Event, tag="session_write_recovered"):
    """All entries that were waiting have been written to the session file."""

    session_file: str


class ExtensionError(Event, tag="extension_error"):
    """An extension failed while handling `event`."""

    extension_path: str
    event: str
    error: str


class McpServerUpdate(Event, tag="mcp_server_update"):
    """The state of an MCP server has changed, or its number of `tools`. Only sent if servers are configured."""

    server: str
    state: Literal["cached", "starting", "ready", "needs_login", "failed", "stopped", "disabled"]
    tools: int | UnsetType = UNSET
    error: str | UnsetType = UNSET


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
    | ToolRequest
    | ToolRequestCancelled
    | QueueUpdate
    | CompactionStart
    | CompactionEnd
    | AutoRetryStart
    | AutoRetryEnd
    | EntryAppended
    | SessionInfoChanged
    | ThinkingLevelChanged
    | BashUpdate
    | BudgetExceeded
    | StructuredOutput
    | SessionDamaged
    | SessionWriteFailed
    | SessionWriteRecovered
    | ExtensionError
    | McpServerUpdate
)


def event_json(event: Event) -> bytes:
    """Encode an event for the wire. Messages are spliced in as the bytes they were decoded from or first encoded to."""
    if not event.carries:
        return encode(event)
    parts = []
    for name, wire_name in zip(event.__struct_fields__, event.__struct_encode_fields__, strict=True):
        value = getattr(event, name)
        if name not in event.carries:
            body = encode(value)
        elif isinstance(value, list):
            body = b"[%b]" % b",".join(map(wire_json, value))
        else:
            body = wire_json(value)
        parts.append(b',"%b":%b' % (wire_name.encode(), body))
    return b'{"type":%b%b}' % (encode(event.__struct_config__.tag), b"".join(parts))
