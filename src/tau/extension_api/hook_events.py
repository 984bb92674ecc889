"""The events of hooks, as types: one class for each hook.

    def protect(event: ToolCallEvent) -> ToolCallAnswer | None:
        if event.tool_name == "bash" and "rm" in event.input["command"]:
            return {"block": True, "reason": "Nothing may be removed."}
        return None

The events are dicts in the format of the wire, with attributes in Python's spelling: `event.tool_name` is
`event["toolName"]`. A field that was not sent is None. Messages, entries and models in them are dicts in the format of
the wire too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from tau.extension_api.context import Event

if TYPE_CHECKING:  # without Event's `__getattr__`, so that type checkers find misspelled attributes
    _Base = dict[str, Any]
else:
    _Base = Event


class HookEvent(_Base):
    """Base class of the events of hooks."""


class SessionStartEvent(HookEvent):
    """A session was opened."""

    reason: Literal["startup", "reload", "new", "resume", "fork"]
    previous_session_file: str | None


class SessionShutdownEvent(HookEvent):
    """The session is about to be closed."""

    reason: Literal["quit", "reload", "new", "resume", "fork"]


class SessionBeforeSwitchEvent(HookEvent):
    """Another session is about to be opened."""

    reason: Literal["new", "resume"]
    target_session_file: str | None


class SessionSwitchEvent(HookEvent):
    """Another session was opened."""

    reason: str
    previous_session_file: str | None


class SessionBeforeForkEvent(HookEvent):
    """The session is about to be forked."""

    entry_id: str
    position: str | None


class SessionForkEvent(HookEvent):
    """The session was forked."""

    reason: str
    previous_session_file: str | None


class SessionBeforeCompactEvent(HookEvent):
    """The conversation is about to be summarized."""

    preparation: dict[str, Any]
    branch_entries: list[dict[str, Any]]
    custom_instructions: str | None
    reason: str
    will_retry: bool


class SessionCompactEvent(HookEvent):
    """The conversation was summarized."""

    compaction_entry: dict[str, Any]
    from_extension: bool
    reason: str
    will_retry: bool


class SessionCompactFailedEvent(HookEvent):
    """The conversation could not be summarized."""

    reason: str
    error_message: str | None
    aborted: bool
    will_retry: bool
    from_extension: bool


class SessionBeforeTreeEvent(HookEvent):
    """The session is about to continue from another entry."""

    preparation: dict[str, Any]


class SessionTreeEvent(HookEvent):
    """The session continues from another entry."""

    new_leaf_id: str | None
    old_leaf_id: str | None
    summary_entry: dict[str, Any] | None
    from_extension: bool | None


class SessionInfoChangedEvent(HookEvent):
    """The session got another name."""

    name: str | None


class ResourcesDiscoverEvent(HookEvent):
    """Skills, templates and themes are being searched for."""

    cwd: str
    reason: Literal["startup", "reload"]


class ProjectTrustEvent(HookEvent):
    """Is this project trusted?"""

    cwd: str


class InputEvent(HookEvent):
    """The user, or the program, sent a message."""

    text: str
    images: list[dict[str, Any]]
    source: str
    streaming_behavior: Literal["steer", "followUp"] | None


class BeforeAgentStartEvent(HookEvent):
    """A run is about to start. `message` is the custom message that starts it, if `message_type` is "custom"."""

    message_type: Literal["user", "custom"]
    message: dict[str, Any] | None
    prompt: str
    images: list[dict[str, Any]]
    system_prompt: str
    system_prompt_options: dict[str, Any]


class AgentStartEvent(HookEvent):
    """A run has started."""


class AgentEndEvent(HookEvent):
    """A run has ended; `will_retry` says that another follows."""

    messages: list[dict[str, Any]]
    will_retry: bool | None


class AgentSettledEvent(HookEvent):
    """A prompt is finished, with all its retries."""

    aborted: bool


class TurnStartEvent(HookEvent):
    """A turn has started: one answer of the model, with its tool calls."""

    turn_index: int
    timestamp: int


class TurnEndEvent(HookEvent):
    """A turn has ended."""

    turn_index: int
    message: dict[str, Any]
    tool_results: list[dict[str, Any]]


class MessageStartEvent(HookEvent):
    """A message begins."""

    message: dict[str, Any]


class MessageUpdateEvent(HookEvent):
    """A part of an answer was received. Updates are skipped while the handler is busy."""

    message: dict[str, Any]
    assistant_message_event: dict[str, Any]
    usage: dict[str, Any] | None


class MessageEndEvent(HookEvent):
    """A message is complete."""

    message: dict[str, Any]


class ToolExecutionStartEvent(HookEvent):
    """A tool call begins."""

    tool_call_id: str
    tool_name: str
    args: dict[str, Any]


class ToolExecutionUpdateEvent(HookEvent):
    """A tool reports progress. Updates are skipped while the handler is busy."""

    tool_call_id: str
    tool_name: str
    args: dict[str, Any]
    partial_result: dict[str, Any]


class ToolExecutionEndEvent(HookEvent):
    """A tool call has ended."""

    tool_call_id: str
    tool_name: str
    result: dict[str, Any]
    is_error: bool
    duration_ms: int | None


class ContextEvent(HookEvent):
    """The model is about to be called with these messages, which may be changed."""

    messages: list[dict[str, Any]]


class BeforeProviderHeadersEvent(HookEvent):
    """The headers of a model request, which may be changed; None removes one."""

    headers: dict[str, str | None]


class BeforeProviderRequestEvent(HookEvent):
    """The body of a model request. The handler may return another one."""

    payload: dict[str, Any]


class AfterProviderResponseEvent(HookEvent):
    """The response of a provider begins."""

    status: int
    headers: dict[str, str]


class ModelSelectEvent(HookEvent):
    """Another model was chosen."""

    model: dict[str, Any]
    previous_model: dict[str, Any] | None
    source: str


class ThinkingLevelSelectEvent(HookEvent):
    """Another thinking level was chosen."""

    level: str
    previous_level: str


class ToolCallEvent(HookEvent):
    """A tool is about to be called. `input`, its arguments, may be changed."""

    tool_name: str
    tool_call_id: str
    input: dict[str, Any]


class ToolResultEvent(HookEvent):
    """A tool has returned its result, which may be replaced."""

    tool_name: str
    tool_call_id: str
    input: dict[str, Any]
    content: list[dict[str, Any]]
    details: Any
    is_error: bool


class UserBashEvent(HookEvent):
    """The user is about to run a shell command."""

    command: str
    exclude_from_context: bool
    cwd: str


class UiPromptStartEvent(HookEvent):
    """A dialog is shown."""

    kind: str
    title: str


class UiPromptEndEvent(HookEvent):
    """A dialog is over."""

    kind: str
    title: str


EVENTS: dict[str, type[HookEvent]] = {
    "session_start": SessionStartEvent,
    "session_shutdown": SessionShutdownEvent,
    "session_before_switch": SessionBeforeSwitchEvent,
    "session_switch": SessionSwitchEvent,
    "session_before_fork": SessionBeforeForkEvent,
    "session_fork": SessionForkEvent,
    "session_before_compact": SessionBeforeCompactEvent,
    "session_compact": SessionCompactEvent,
    "session_compact_failed": SessionCompactFailedEvent,
    "session_before_tree": SessionBeforeTreeEvent,
    "session_tree": SessionTreeEvent,
    "session_info_changed": SessionInfoChangedEvent,
    "resources_discover": ResourcesDiscoverEvent,
    "project_trust": ProjectTrustEvent,
    "input": InputEvent,
    "before_agent_start": BeforeAgentStartEvent,
    "agent_start": AgentStartEvent,
    "agent_end": AgentEndEvent,
    "agent_settled": AgentSettledEvent,
    "turn_start": TurnStartEvent,
    "turn_end": TurnEndEvent,
    "message_start": MessageStartEvent,
    "message_update": MessageUpdateEvent,
    "message_end": MessageEndEvent,
    "tool_execution_start": ToolExecutionStartEvent,
    "tool_execution_update": ToolExecutionUpdateEvent,
    "tool_execution_end": ToolExecutionEndEvent,
    "context": ContextEvent,
    "before_provider_headers": BeforeProviderHeadersEvent,
    "before_provider_request": BeforeProviderRequestEvent,
    "after_provider_response": AfterProviderResponseEvent,
    "model_select": ModelSelectEvent,
    "thinking_level_select": ThinkingLevelSelectEvent,
    "tool_call": ToolCallEvent,
    "tool_result": ToolResultEvent,
    "user_bash": UserBashEvent,
    "ui_prompt_start": UiPromptStartEvent,
    "ui_prompt_end": UiPromptEndEvent,
}
