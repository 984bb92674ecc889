"""Responses: the `data` of the response to each command. The server adds the envelope."""

from __future__ import annotations

from typing import Any, Literal

from tau.records.base import UNSET, Record, UnsetType
from tau.records.commands import QueueMode
from tau.records.events import Limit
from tau.records.lines import ForkPoint as ForkPoint  # opening a session needs it, and no other reply
from tau.records.messages import Usage
from tau.records.models import Model, ThinkingLevel
from tau.records.settings import SandboxLevel

Disposition = Literal["started", "queued", "handled"]


class SessionState(Record):
    """`sessionFile` is absent if the session is only in memory. `pendingMessageCount` is the number of queued
    messages.
    """

    model: Model | None
    thinking_level: ThinkingLevel
    is_streaming: bool
    is_compacting: bool
    steering_mode: QueueMode
    follow_up_mode: QueueMode
    session_file: str | UnsetType
    session_id: str
    session_name: str | UnsetType
    auto_compaction_enabled: bool
    message_count: int
    pending_message_count: int
    sandbox: SandboxLevel | UnsetType = UNSET


class Accepted(Record):
    """`started`: the prompt runs now. `queued`: the message is delivered later. `handled`: it starts no run."""

    disposition: Disposition


class Capabilities(Record):
    """`snapshots`: every `message_update` contains the whole message so far. `responses`: every command gets a
    response.
    """

    commands: list[str]
    events: list[str]
    snapshots: bool
    responses: bool


class Protocol(Record):
    """`version` is the release of pi with this dialect; `dialects` are all dialects that can be chosen."""

    dialect: str
    version: str
    tau_version: str
    dialects: list[str]
    capabilities: Capabilities


class Messages(Record):
    """The messages of the conversation, in order."""

    messages: Any  # encoded JSON: it may be the whole of a large session


class Cycled(Record):
    """`isScoped` is true if the choice is limited to the models of `--models` or `enabledModels`."""

    model: Model
    thinking_level: ThinkingLevel
    is_scoped: bool


class Models(Record):
    models: list[Model]


class Level(Record):
    level: ThinkingLevel


class Levels(Record):
    levels: list[ThinkingLevel]


class Queues(Record):
    steering: list[str]
    follow_up: list[str]


class Cancelled(Record):
    """`cancelled` is true if an extension cancelled the operation."""

    cancelled: bool = False


class Forked(Record):
    """`text` is the text of the user message that was forked from."""

    text: str
    cancelled: bool = False


class ForkPoints(Record):
    messages: list[ForkPoint]


class Entries(Record):
    entries: list[Any]
    leaf_id: str | None


class Tree(Record):
    """The roots of the tree, as nested nodes."""

    tree: Any  # encoded JSON: it is nested as deeply as the session is long
    leaf_id: str | None


class LastText(Record):
    text: str | None


class BashResult(Record):
    """`output` holds stdout and stderr in the order of arrival. `exitCode` is absent if the command was killed."""

    output: str
    exit_code: int | UnsetType
    cancelled: bool
    truncated: bool
    full_output_path: str | UnsetType
    stdout: str
    stderr: str
    signal: str | None


class TokenSums(Record):
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total: int = 0


class ContextUsage(Record):
    """How full the context window is. `tokens` and `percent` are null after a compaction, until the model has
    answered again.
    """

    tokens: int | None
    context_window: int
    percent: float | None


class SessionStats(Record):
    """`totalMessages` counts the messages in the session file; `messageCount` of `get_state` counts the conversation.

    `costUnknown` is present, and true, if a model was used whose price is not known; `cost` is then too low.
    """

    session_file: str | UnsetType
    session_id: str
    user_messages: int
    assistant_messages: int
    tool_calls: int
    tool_results: int
    total_messages: int
    tokens: TokenSums
    cost: float
    cost_unknown: bool | UnsetType = UNSET
    context_usage: ContextUsage | UnsetType = UNSET


class SessionRow(Record):
    """A session in a list. Times are Unix milliseconds."""

    path: str
    id: str
    cwd: str
    name: str | UnsetType
    parent_session_path: str | UnsetType
    created: int
    modified: int
    message_count: int
    first_message: str


class SessionRows(Record):
    sessions: list[SessionRow]


class Navigated(Record):
    """`editorText` is the text of the user message that was navigated to, so that it can be edited and sent again."""

    cancelled: bool = False
    editor_text: str | UnsetType = UNSET
    leaf_id: str | None = None


class Exported(Record):
    path: str


class SourceInfo(Record):
    """`source` is `auto` (found in its default folder), `local` (named in settings), `cli`, or the name of another
    source.
    """

    path: str
    source: str
    scope: Literal["user", "project", "temporary"]
    origin: Literal["package", "top-level"] = "top-level"
    base_dir: str | UnsetType = UNSET


class SlashCommand(Record):
    """Contains both forms of the protocol: the older `location` and `path`, and the newer `sourceInfo`."""

    name: str
    description: str | UnsetType = UNSET
    source: Literal["extension", "prompt", "skill", "mcp"] = "prompt"
    location: Literal["user", "project", "path"] | UnsetType = UNSET
    path: str | UnsetType = UNSET
    source_info: SourceInfo | UnsetType = UNSET


class SlashCommands(Record):
    commands: list[SlashCommand]


class McpServerRow(Record):
    """A configured MCP server. `source` is the file that configures it, `tools` are the names that the server uses."""

    name: str
    source: str
    transport: Literal["stdio", "http", "sse"]
    state: Literal["cached", "starting", "ready", "needs_login", "failed", "stopped", "disabled"]
    version: str | UnsetType = UNSET
    era: Literal["legacy", "modern"] | UnsetType = UNSET
    protocol: str | UnsetType = UNSET
    tools: list[str] | UnsetType = UNSET
    error: str | UnsetType = UNSET
    restarts: int = 0


class McpServers(Record):
    """`problems` are mistakes in configuration files."""

    servers: list[McpServerRow]
    problems: list[str] = []


class ToolNames(Record):
    """The names of the client's own tools."""

    tools: list[str]


class ListedTool(Record):
    """`source` says where the tool comes from: tau itself, an extension, a client (`set_tools`), an MCP server, or the
    program that embeds tau. `server` is the MCP server. `active`: the model has it.
    """

    name: str
    description: str
    source: Literal["builtin", "extension", "host", "mcp", "program"]
    active: bool
    exposure: Literal["direct", "deferred", "hidden"] = "direct"
    server: str | UnsetType = UNSET
    annotations: dict[str, Any] | UnsetType = UNSET


class ListedTools(Record):
    tools: list[ListedTool]


class Result(Record, tag_field="type", tag="result"):
    """The last line of JSON mode with `--result`: the outcome of all prompts together.

    `text` and `stopReason` are those of the last assistant message; `text` is null if it failed. `errorMessage` is
    the last error. `usage` and `cost`, in dollars, are sums over all turns. `output` is the result of
    `--output-schema`, and `limit` is the budget limit that ended the last prompt. `denials` gives the reason for
    every tool call that `--permissions` denied; it is absent if there were none.
    """

    text: str | None
    stop_reason: str | None
    error_message: str | UnsetType
    usage: Usage
    cost: float
    turns: int
    duration_ms: int
    session_file: str | UnsetType
    exit_code: int
    output: Any = UNSET
    limit: Limit | UnsetType = UNSET
    denials: list[str] | UnsetType = UNSET
