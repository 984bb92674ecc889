"""What a client asks: one record per command.

`id` is not among the fields: it may be any JSON value and is echoed as it came
(rpc/server.py). Where a field is optional, null means the same as leaving it out.
"""

from __future__ import annotations

from typing import Any, Literal

from tau.records.base import Record
from tau.records.messages import Attachment
from tau.records.models import ThinkingLevel

QueueMode = Literal["all", "one-at-a-time"]


class ImageSource(Record):
    """The older form of an image (January 2026). Only base64 sources are accepted."""

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


class Command(Record, tag_field="type"):
    """Base of everything a client can ask."""


class Prompt(Command, tag="prompt"):
    """Send a message. While the agent streams, `streamingBehavior` says how to queue it.

    `outputSchema` is a JSON schema that the result has to fit; a `structured_output` event has it.
    """

    message: str
    images: list[ImageGiven] | None = None
    streaming_behavior: Literal["steer", "followUp"] | None = None
    attachments: list[Attachment] | None = None
    output_schema: dict[str, Any] | None = None


class Steer(Command, tag="steer"):
    """Interrupt: delivered after the tool that runs now; the remaining tool calls are skipped."""

    message: str
    images: list[ImageGiven] | None = None


class FollowUp(Command, tag="follow_up"):
    """Delivered when the agent would otherwise stop."""

    message: str
    images: list[ImageGiven] | None = None


class Abort(Command, tag="abort"):
    """Stop the run; answered when it has stopped. The queues are left alone."""


class ClearQueue(Command, tag="clear_queue"):
    """Empty both queues and return what was in them."""


class NewSession(Command, tag="new_session"):
    """Start a fresh session, ending a run that is under way."""

    parent_session: str | None = None


class GetState(Command, tag="get_state"):
    """What the session is set to and doing now."""


class GetMessages(Command, tag="get_messages"):
    """The conversation as the model sees it."""


class SetModel(Command, tag="set_model"):
    """Switch to a model; saved as the user's default."""

    provider: str
    model_id: str


class CycleModel(Command, tag="cycle_model"):
    """Switch to the next available model; `null` if there is only one."""


class GetAvailableModels(Command, tag="get_available_models"):
    """Models that have a key."""


class SetThinkingLevel(Command, tag="set_thinking_level"):
    """Set how hard the model thinks; a level the model does not have is clamped."""

    level: ThinkingLevel


class CycleThinkingLevel(Command, tag="cycle_thinking_level"):
    """The next level; `null` if the model does not think."""


class GetAvailableThinkingLevels(Command, tag="get_available_thinking_levels"):
    """The levels of the current model."""


class SetSteeringMode(Command, tag="set_steering_mode"):
    """Deliver steering messages all at once or one by one."""

    mode: QueueMode


class SetFollowUpMode(Command, tag="set_follow_up_mode"):
    """Deliver follow-up messages all at once or one by one."""

    mode: QueueMode


class Compact(Command, tag="compact"):
    """Replace the older part of the conversation by a summary."""

    custom_instructions: str | None = None


class SetAutoCompaction(Command, tag="set_auto_compaction"):
    """Compact by itself when the context is nearly full."""

    enabled: bool


class SetAutoRetry(Command, tag="set_auto_retry"):
    """Try again by itself after a transient error."""

    enabled: bool


class AbortRetry(Command, tag="abort_retry"):
    """Stop waiting for the next try."""


class SetBudget(Command, tag="set_budget"):
    """Limit what each prompt may take, the one under way included; a limit that is left out is none."""

    max_turns: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    time_limit: float | None = None
    allow_unknown_cost: bool | None = None


class Bash(Command, tag="bash"):
    """Run a shell command; its output goes to the model with the next prompt."""

    command: str
    exclude_from_context: bool | None = None


class AbortBash(Command, tag="abort_bash"):
    """Stop every running `bash` command."""


class GetSessionStats(Command, tag="get_session_stats"):
    """Messages, tokens and cost of the whole session, so that they never shrink: every entry of every branch, answers
    that were tried again, and what compactions and summaries of branches took."""


class ExportHtml(Command, tag="export_html"):
    """Write the session as an HTML page."""

    output_path: str | None = None


class SwitchSession(Command, tag="switch_session"):
    """Open another session file."""

    session_path: str


class ListSessions(Command, tag="list_sessions"):
    """The sessions of this project, the newest first; with `all`, those of every project."""

    all: bool | None = None


class Navigate(Command, tag="navigate"):
    """Go on from another entry of this session, with a summary of the branch that is left if `summarize` is set."""

    entry_id: str
    summarize: bool | None = None
    custom_instructions: str | None = None
    label: str | None = None


class Fork(Command, tag="fork"):
    """Go on from before an earlier user message, in a new session."""

    entry_id: str


class Clone(Command, tag="clone"):
    """Copy the current branch into a new session and go on there."""


class GetForkMessages(Command, tag="get_fork_messages"):
    """User messages that can be forked from."""


class GetEntries(Command, tag="get_entries"):
    """Session entries in the order they were added, all or those after `since`."""

    since: str | None = None


class GetTree(Command, tag="get_tree"):
    """Session entries as a tree."""


class GetLastAssistantText(Command, tag="get_last_assistant_text"):
    """The text of the last answer, or `null`."""


class SetSessionName(Command, tag="set_session_name"):
    """Name the session."""

    name: str


class GetCommands(Command, tag="get_commands"):
    """What can be invoked by a prompt that begins with `/`."""


class GetProtocol(Command, tag="get_protocol"):
    """Which dialect is spoken, and what can be said in it."""


AnyCommand = (
    Prompt
    | Steer
    | FollowUp
    | Abort
    | ClearQueue
    | NewSession
    | GetState
    | GetMessages
    | SetModel
    | CycleModel
    | GetAvailableModels
    | SetThinkingLevel
    | CycleThinkingLevel
    | GetAvailableThinkingLevels
    | SetSteeringMode
    | SetFollowUpMode
    | Compact
    | SetAutoCompaction
    | SetAutoRetry
    | AbortRetry
    | SetBudget
    | Bash
    | AbortBash
    | GetSessionStats
    | ExportHtml
    | SwitchSession
    | ListSessions
    | Navigate
    | Fork
    | Clone
    | GetForkMessages
    | GetEntries
    | GetTree
    | GetLastAssistantText
    | SetSessionName
    | GetCommands
    | GetProtocol
)
