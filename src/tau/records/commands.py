"""Commands: one record for everything a client can ask.

`id` is not a field: it may be any JSON value and is echoed unchanged (rpc/server.py). In an optional field, null
means the same as leaving the field out.
"""

# Without `from __future__ import annotations`: msgspec would compile each annotation of what every prompt decodes.
from functools import reduce
from operator import or_
from typing import Any, Literal

from tau.records.base import Record
from tau.records.messages import Attachment, Image, Text
from tau.records.models import ThinkingLevel

QueueMode = Literal["all", "one-at-a-time"]


class ImageSource(Record):
    """The older form of an image (January 2026). Only sources of type `base64` are accepted."""

    type: str
    data: str | None = None
    media_type: str | None = None
    url: str | None = None


class ImageGiven(Record):
    """An image in a command: `data` and `mimeType`, or the older `source`."""

    type: Literal["image"]
    data: str | None = None
    mime_type: str | None = None
    source: ImageSource | None = None


class HostTool(Record):
    """A tool of the client. `parameters` is the JSON Schema of an object. `promptSnippet` is its line in the system
    prompt. A `deferred` tool is offered once `tool_search` has found it. With `replaces`, it takes the place of the
    built-in tool of the same name. Without `timeoutMs` a call has no time limit.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    label: str | None = None
    timeout_ms: int | None = None
    prompt_snippet: str | None = None
    exposure: Literal["direct", "deferred"] | None = None
    replaces: bool | None = None


class Command(Record, tag_field="type"):
    """Base class of commands."""


class Prompt(Command, tag="prompt"):
    """Send a message and start a run. While the agent is streaming, `streamingBehavior` is required and says how to
    queue it.

    `outputSchema` is a JSON Schema; the agent returns a value that matches it in a `structured_output` event.
    `traceparent` is the parent of the run in a trace, in the format of W3C Trace Context.
    """

    message: str
    images: list[ImageGiven] | None = None
    streaming_behavior: Literal["steer", "followUp"] | None = None
    attachments: list[Attachment] | None = None
    output_schema: dict[str, Any] | None = None
    traceparent: str | None = None


class Steer(Command, tag="steer"):
    """Queue a message that interrupts the run: it is delivered after the current tool call, and the remaining tool
    calls are skipped.
    """

    message: str
    images: list[ImageGiven] | None = None


class FollowUp(Command, tag="follow_up"):
    """Queue a message that is delivered when the agent would otherwise stop."""

    message: str
    images: list[ImageGiven] | None = None


class Abort(Command, tag="abort"):
    """Stop the run. The response is sent when it has stopped. The queues keep their messages."""


class ClearQueue(Command, tag="clear_queue"):
    """Empty both queues and return the messages that were in them."""


class NewSession(Command, tag="new_session"):
    """Start a new session. A run in progress is aborted."""

    parent_session: str | None = None


class GetState(Command, tag="get_state"):
    """Return the settings and the current activity of the session."""


class GetMessages(Command, tag="get_messages"):
    """Return the conversation as the model sees it."""


class SetModel(Command, tag="set_model"):
    """Switch to a model and save it as the user's default."""

    provider: str
    model_id: str


class CycleModel(Command, tag="cycle_model"):
    """Switch to the next available model. `data` is `null` if there is only one."""


class GetAvailableModels(Command, tag="get_available_models"):
    """Return the models that have an API key."""


class SetThinkingLevel(Command, tag="set_thinking_level"):
    """Set how much the model thinks. A level that the model does not support is replaced by the nearest one that it
    does.
    """

    level: ThinkingLevel


class CycleThinkingLevel(Command, tag="cycle_thinking_level"):
    """Switch to the next thinking level. `data` is `null` if the model does not support thinking."""


class GetAvailableThinkingLevels(Command, tag="get_available_thinking_levels"):
    """Return the thinking levels of the current model."""


class SetSteeringMode(Command, tag="set_steering_mode"):
    """Deliver queued steering messages all at once or one at a time."""

    mode: QueueMode


class SetFollowUpMode(Command, tag="set_follow_up_mode"):
    """Deliver queued follow-up messages all at once or one at a time."""

    mode: QueueMode


class Compact(Command, tag="compact"):
    """Replace the older part of the conversation by a summary."""

    custom_instructions: str | None = None


class SetAutoCompaction(Command, tag="set_auto_compaction"):
    """Turn automatic compaction, when the context is nearly full, on or off."""

    enabled: bool


class SetAutoRetry(Command, tag="set_auto_retry"):
    """Turn automatic retries after transient errors on or off."""

    enabled: bool


class AbortRetry(Command, tag="abort_retry"):
    """Cancel a retry that is waiting for its delay to pass."""


class SetBudget(Command, tag="set_budget"):
    """Limit each prompt, including the current one. A limit that is left out is removed."""

    max_turns: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    time_limit: float | None = None
    allow_unknown_cost: bool | None = None


class Bash(Command, tag="bash"):
    """Run a shell command. Its output is sent to the model with the next prompt."""

    command: str
    exclude_from_context: bool | None = None


class AbortBash(Command, tag="abort_bash"):
    """Stop all running `bash` commands."""


class GetSessionStats(Command, tag="get_session_stats"):
    """Return messages, tokens and cost of the whole session file: every entry of every branch, retried answers, and the
    usage of compactions and branch summaries. The sums never shrink.
    """


class ExportHtml(Command, tag="export_html"):
    """Export the session to an HTML file."""

    output_path: str | None = None


class SwitchSession(Command, tag="switch_session"):
    """Open another session file."""

    session_path: str


class ListSessions(Command, tag="list_sessions"):
    """List the sessions of this project, newest first, or with `all` those of every project."""

    all: bool | None = None


class Navigate(Command, tag="navigate"):
    """Continue from another entry of this session. With `summarize`, a summary of the abandoned branch is added."""

    entry_id: str
    summarize: bool | None = None
    custom_instructions: str | None = None
    label: str | None = None


class Fork(Command, tag="fork"):
    """Continue in a new session from the point before an earlier user message."""

    entry_id: str


class Clone(Command, tag="clone"):
    """Copy the current branch to a new session and continue there."""


class GetForkMessages(Command, tag="get_fork_messages"):
    """Return the user messages that can be forked from, on all branches."""


class GetEntries(Command, tag="get_entries"):
    """Return the session entries in the order in which they were added, all of them or those after `since`."""

    since: str | None = None


class GetTree(Command, tag="get_tree"):
    """Return the session entries as a tree."""


class GetLastAssistantText(Command, tag="get_last_assistant_text"):
    """Return the text of the last assistant message, or `null` if there is none."""


class SetSessionName(Command, tag="set_session_name"):
    """Set the name of the session."""

    name: str


class GetCommands(Command, tag="get_commands"):
    """Return the commands that a prompt can invoke with `/`."""


class GetMcpServers(Command, tag="get_mcp_servers"):
    """Return the configured MCP servers and their states. Starts none of them."""


class RestartMcpServer(Command, tag="restart_mcp_server"):
    """Start an MCP server again, also one that failed too often. Returns its state."""

    server: str


class SetTools(Command, tag="set_tools"):
    """Offer tools that run in the client, from the next model call on. Replaces the whole set; `[]` removes it.

    Each call arrives as a `tool_request` event, and the client answers it with `tool_result`.
    """

    tools: list[HostTool]


class HostToolProgress(Command, tag="tool_progress"):
    """Report the result of a tool request so far, all of it."""

    request_id: str
    content: str | list[Text | Image]


class HostToolResult(Command, tag="tool_result"):
    """Answer a tool request. With `isError`, the model is told that the tool failed. `details` are for clients."""

    request_id: str
    content: str | list[Text | Image]
    is_error: bool | None = None
    details: Any = None


class GetTools(Command, tag="get_tools"):
    """Return all tools, and which of them the model has."""


class SetActiveTools(Command, tag="set_active_tools"):
    """Give the model exactly these tools, from the next model call on. Unknown names are ignored."""

    names: list[str]


class GetProtocol(Command, tag="get_protocol"):
    """Return the protocol dialect in use and its capabilities."""


AnyCommand: Any = reduce(or_, Command.__subclasses__())  # a union of the records above
