"""Records of what tau sends: the updates of a session, and the parts of results.

The discriminator of updates is `sessionUpdate`, that of content is `type`.
"""

from __future__ import annotations

from typing import Any, Literal

from tau.records.base import UNSET, Record, UnsetType, field

ToolKind = Literal["read", "edit", "search", "execute", "think", "fetch", "other"]
Status = Literal["pending", "in_progress", "completed", "failed"]
Severity = Literal["info", "warning", "error"]
OptionKind = Literal["allow_once", "allow_always", "reject_once"]
Meta = dict[str, Any] | UnsetType


class TextContent(Record, tag_field="type", tag="text"):
    text: str


class ImageContent(Record, tag_field="type", tag="image"):
    data: str
    mime_type: str


class LinkContent(Record, tag_field="type", tag="resource_link"):
    name: str
    uri: str
    mime_type: str | UnsetType = UNSET


Content = TextContent | ImageContent | LinkContent


class Contained(Record, tag_field="type", tag="content"):
    """Content of a tool call."""

    content: Content


class Diff(Record, tag_field="type", tag="diff"):
    """A change of a file. `old_text` is None for a new file."""

    path: str
    old_text: str | None
    new_text: str


class Terminal(Record, tag_field="type", tag="terminal"):
    """Output that arrives in `_meta.terminal_output`, for clients that announced it."""

    terminal_id: str


ToolContent = Contained | Diff | Terminal


class Location(Record):
    """`path` is absolute, `line` is counted from 1."""

    path: str
    line: int | UnsetType = UNSET


class Update(Record, tag_field="sessionUpdate", kw_only=True):
    """Base class of the updates of a session."""

    meta: Meta = field(default=UNSET, name="_meta")


class UserChunk(Update, tag="user_message_chunk", kw_only=True):
    content: Content
    message_id: str | UnsetType = UNSET


class MessageChunk(Update, tag="agent_message_chunk", kw_only=True):
    content: Content
    message_id: str | UnsetType = UNSET


class ThoughtChunk(Update, tag="agent_thought_chunk", kw_only=True):
    content: Content
    message_id: str | UnsetType = UNSET


class ToolCallFields(Record, kw_only=True):
    """A tool call in a permission question: the fields of an update without its discriminator."""

    tool_call_id: str
    title: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    kind: ToolKind | UnsetType = UNSET
    status: Status | UnsetType = UNSET
    content: list[ToolContent] | UnsetType = UNSET
    locations: list[Location] | UnsetType = UNSET
    raw_input: Any = UNSET
    raw_output: Any = UNSET


class ToolCall(Update, tag="tool_call", kw_only=True):
    """A new tool call."""

    tool_call_id: str
    title: str
    name: str | UnsetType = UNSET
    kind: ToolKind = "other"
    status: Status = "pending"
    content: list[ToolContent] | UnsetType = UNSET
    locations: list[Location] | UnsetType = UNSET
    raw_input: Any = UNSET
    raw_output: Any = UNSET


class ToolCallUpdate(Update, tag="tool_call_update", kw_only=True):
    """Replaces the fields that are present."""

    tool_call_id: str
    title: str | UnsetType = UNSET
    kind: ToolKind | UnsetType = UNSET
    status: Status | UnsetType = UNSET
    content: list[ToolContent] | UnsetType = UNSET
    locations: list[Location] | UnsetType = UNSET
    raw_input: Any = UNSET
    raw_output: Any = UNSET


class PlanEntry(Record):
    content: str
    priority: Literal["high", "medium", "low"] = "medium"
    status: Literal["pending", "in_progress", "completed"] = "pending"


class Plan(Update, tag="plan", kw_only=True):
    """The whole plan, each time."""

    entries: list[PlanEntry]


class CommandInput(Record):
    hint: str


class Command(Record):
    name: str
    description: str
    input: CommandInput | UnsetType = UNSET


class CommandsUpdate(Update, tag="available_commands_update", kw_only=True):
    available_commands: list[Command]


class ModeUpdate(Update, tag="current_mode_update", kw_only=True):
    current_mode_id: str


class Choice(Record):
    value: str
    name: str
    description: str | UnsetType = UNSET


class SelectOption(Record, tag_field="type", tag="select"):
    id: str
    name: str
    category: str
    current_value: str
    options: list[Choice]  # flat: some clients cannot read groups


class BooleanOption(Record, tag_field="type", tag="boolean"):
    id: str
    name: str
    category: str
    current_value: bool


ConfigOption = SelectOption | BooleanOption


class ConfigUpdate(Update, tag="config_option_update", kw_only=True):
    config_options: list[ConfigOption]


class Mode(Record):
    id: str
    name: str
    description: str | UnsetType = UNSET


class ModeState(Record):
    current_mode_id: str
    available_modes: list[Mode]


class SessionChoices(Record):
    """The result of session/load and session/resume."""

    config_options: list[ConfigOption]
    modes: ModeState


class InfoUpdate(Update, tag="session_info_update", kw_only=True):
    title: str | UnsetType = UNSET
    updated_at: str | UnsetType = UNSET


class Cost(Record):
    amount: float
    currency: str = "USD"


class UsageUpdate(Update, tag="usage_update", kw_only=True):
    """`used` of the `size` tokens of the context window; `cost` of the whole session."""

    used: int
    size: int
    cost: Cost | UnsetType = UNSET


class Notice(Update, tag="notice", kw_only=True):
    severity: Severity
    title: str
    description: str | UnsetType = UNSET


class CompactionUpdate(Update, tag="compaction_update", kw_only=True):
    compaction_id: str
    status: Literal["in_progress", "completed", "failed", "cancelled"]
    summary: list[Content] | UnsetType = UNSET
    error: str | UnsetType = UNSET


class PermissionOption(Record):
    option_id: str
    name: str
    kind: OptionKind


class SessionInfo(Record):
    """A row of session/list."""

    session_id: str
    cwd: str
    title: str | UnsetType = UNSET
    updated_at: str | UnsetType = UNSET
