"""Messages and their content blocks.

The shapes are the same in events, in responses and in session files.
"""

# Without `from __future__ import annotations`: msgspec would compile each annotation of what every prompt decodes.
from typing import Any, Literal

from tau.records.base import UNSET, Record, UnsetType, field

StopReason = Literal["stop", "length", "toolUse", "error", "aborted"]


class Text(Record, tag_field="type", tag="text"):
    """`isDocument` is set for the text of an attachment."""

    text: str
    text_signature: str | UnsetType = UNSET
    is_document: bool | UnsetType = UNSET


class Thinking(Record, tag_field="type", tag="thinking"):
    """If `redacted` is set, the signature holds an opaque payload."""

    thinking: str
    thinking_signature: str | UnsetType = UNSET
    redacted: bool | UnsetType = UNSET


class Image(Record, tag_field="type", tag="image"):
    """`data` is base64 without a data-URL prefix."""

    data: str
    mime_type: str


class ToolCall(Record, tag_field="type", tag="toolCall"):
    """A tool call of the model. `arguments` is the parsed JSON object."""

    id: str
    name: str
    arguments: dict[str, Any]
    thought_signature: str | UnsetType = UNSET


class UsageCost(Record):
    """Cost in dollars."""

    input: float = 0
    output: float = 0
    cache_read: float = 0
    cache_write: float = 0
    total: float = 0


class Usage(Record):
    """Token counts. `input` does not include tokens that were read from or written to a cache.

    `reasoning` is the part of `output` spent on reasoning, if the provider reports it; `cacheWrite1h`, the part of
    `cacheWrite` that is kept for an hour, in dialects that have it.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total_tokens: int = 0
    cost: UsageCost = UsageCost()
    reasoning: int | UnsetType = UNSET
    cache_write_1h: int | UnsetType = field(default=UNSET, name="cacheWrite1h")


class Message(Record, tag_field="role"):
    """Base class of messages."""


class Attachment(Record):
    """A file in a command. `content` is base64. For a document, the model receives `extractedText` if it is present."""

    type: Literal["image", "document"]
    file_name: str
    mime_type: str
    content: str
    id: str | UnsetType = UNSET
    size: int | UnsetType = UNSET
    extracted_text: str | UnsetType | None = UNSET
    preview: str | UnsetType | None = UNSET


class User(Message, tag="user"):
    """`attachments` are kept only if the setting `keepAttachments` is on. Their contents are in `content` in any
    case.
    """

    content: str | list[Text | Image]
    timestamp: int
    attachments: list[Attachment] | UnsetType = UNSET


class Assistant(Message, tag="assistant"):
    """A message of the model. `responseId` is the provider's id of the response, `rawStopReason` its reason in the
    provider's words, in dialects that have it.
    """

    content: list[Text | Thinking | ToolCall]
    api: str
    provider: str
    model: str
    usage: Usage
    stop_reason: StopReason
    timestamp: int
    error_message: str | UnsetType = UNSET
    response_id: str | UnsetType = UNSET
    raw_stop_reason: str | UnsetType = UNSET

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The tool calls in the message."""
        return [block for block in self.content if type(block) is ToolCall]

    @property
    def text(self) -> str:
        """The text blocks, concatenated."""
        return "".join([block.text for block in self.content if isinstance(block, Text)])

    @property
    def failed(self) -> bool:
        """True if the message ended with an error or was aborted."""
        return self.stop_reason in ("error", "aborted")


class ToolResult(Message, tag="toolResult"):
    """The result of a tool call."""

    tool_call_id: str
    tool_name: str
    content: list[Text | Image]
    details: Any = UNSET
    is_error: bool = False
    timestamp: int = 0


class BashExecution(Message, tag="bashExecution"):
    """A command that the client ran with `bash`. `exit_code` is absent if the command was killed."""

    command: str
    output: str
    exit_code: int | UnsetType = UNSET
    cancelled: bool = False
    truncated: bool = False
    full_output_path: str | None = None
    timestamp: int = 0
    exclude_from_context: bool | UnsetType = UNSET


class Custom(Message, tag="custom"):
    """A message of an extension. `display` says whether clients should show it."""

    custom_type: str
    content: str | list[Text | Image]
    display: bool
    details: Any = UNSET
    timestamp: int = 0


class BranchSummary(Message, tag="branchSummary"):
    """The summary of an abandoned branch; `fromId` is the leaf of that branch."""

    summary: str
    from_id: str
    timestamp: int = 0


class CompactionSummary(Message, tag="compactionSummary"):
    """The summary that replaces the older part of the conversation."""

    summary: str
    tokens_before: int
    timestamp: int = 0


class System(Message, tag="system"):
    """Which system prompt, in sections, and which tools the model has from here on, in dialects that have such
    messages. A section that is null is gone. For clients: a model never gets it. It is read from a file as `Other`.
    """

    content: str
    timestamp: int
    sections: dict[str, str | None] | UnsetType = UNSET
    tools_added: list[dict[str, Any]] | UnsetType = UNSET
    tools_removed: list[str] | UnsetType = UNSET


class Other(Record):
    """A message that is not understood, for example because its role is unknown. It is kept and sent to clients, but
    never to a model.
    """

    role: str


AnyMessage = User | Assistant | ToolResult | BashExecution | Custom | BranchSummary | CompactionSummary
StoredMessage = AnyMessage | Other
