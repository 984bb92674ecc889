"""The answers of hooks, as types for annotations. Handlers return plain dicts, with the names of the wire."""

from __future__ import annotations

from typing import Any, Literal, TypedDict


class CancelAnswer(TypedDict, total=False):
    """True for `cancel` prevents the operation."""

    cancel: bool


class CompactAnswer(TypedDict, total=False):
    """Cancels the compaction, or provides it: `{"summary", "firstKeptEntryId", "tokensBefore"}`."""

    cancel: bool
    compaction: dict[str, Any]


class TreeAnswer(TypedDict, total=False):
    """Cancels the navigation, or changes how the abandoned branch is summarized."""

    cancel: bool
    summary: dict[str, Any]
    customInstructions: str
    replaceInstructions: bool
    label: str


class ResourcesAnswer(TypedDict, total=False):
    """Additional paths; those of all handlers are combined."""

    skillPaths: list[str]
    promptPaths: list[str]
    themePaths: list[str]


class TrustAnswer(TypedDict, total=False):
    """The first "yes" or "no" decides."""

    trusted: Literal["yes", "no", "undecided"]
    remember: bool


class InputAnswer(TypedDict, total=False):
    """ "transform" replaces the input; "handled" means that the handler did all that is needed."""

    action: Literal["continue", "transform", "handled"]
    text: str
    images: list[dict[str, Any]]


class StartAnswer(TypedDict, total=False):
    """A custom message that is added to the prompt, and the system prompt of this run."""

    message: dict[str, Any]
    systemPrompt: str


class ContextAnswer(TypedDict, total=False):
    """The messages for this call of the model."""

    messages: list[dict[str, Any]]


class HeadersAnswer(TypedDict, total=False):
    """The headers of this request."""

    headers: dict[str, str | None]


class ToolCallAnswer(TypedDict, total=False):
    """`block` prevents the call, and the model reads the `reason`; `input` replaces the arguments."""

    block: bool
    reason: str
    input: dict[str, Any]


class ToolResultAnswer(TypedDict, total=False):
    """Replaces parts of the result."""

    content: list[dict[str, Any]]
    details: Any
    isError: bool


class BashAnswer(TypedDict, total=False):
    """The result of a command that the handler ran itself: `{"output", "exitCode", "cancelled", "truncated"}`."""

    result: dict[str, Any]
