"""Deltas: the streaming events of one assistant message, carried by message_update.

`partial` is the message so far. Inside tau a delta has none (core/agent/draft.py); it is added for dialects that send
it.
"""

from __future__ import annotations

from typing import Literal

from tau.records.base import UNSET, Record, UnsetType
from tau.records.messages import Assistant, ToolCall


class Delta(Record, tag_field="type"):
    """Base class of the deltas in message_update."""


class TextStart(Delta, tag="text_start"):
    """A text block starts. `contentIndex` is its index in the message's `content`, as in all deltas."""

    content_index: int
    partial: Assistant | UnsetType = UNSET


class TextDelta(Delta, tag="text_delta"):
    """A piece of the text."""

    content_index: int
    delta: str
    partial: Assistant | UnsetType = UNSET


class TextEnd(Delta, tag="text_end"):
    """The text block is complete; `content` is its whole text."""

    content_index: int
    content: str
    partial: Assistant | UnsetType = UNSET


class ThinkingStart(Delta, tag="thinking_start"):
    """A thinking block starts."""

    content_index: int
    partial: Assistant | UnsetType = UNSET


class ThinkingDelta(Delta, tag="thinking_delta"):
    """A piece of the thinking."""

    content_index: int
    delta: str
    partial: Assistant | UnsetType = UNSET


class ThinkingEnd(Delta, tag="thinking_end"):
    """The thinking block is complete; `content` is its whole text."""

    content_index: int
    content: str
    partial: Assistant | UnsetType = UNSET


class ToolCallStart(Delta, tag="toolcall_start"):
    """A tool call starts."""

    content_index: int
    id: str
    tool_name: str
    partial: Assistant | UnsetType = UNSET


class ToolCallDelta(Delta, tag="toolcall_delta"):
    """`delta` is a piece of the JSON text of the arguments."""

    content_index: int
    delta: str
    partial: Assistant | UnsetType = UNSET


class ToolCallEnd(Delta, tag="toolcall_end"):
    """The tool call is complete, with its parsed arguments."""

    content_index: int
    tool_call: ToolCall
    partial: Assistant | UnsetType = UNSET


class Failure(Delta, tag="error"):
    """The assistant message failed or was aborted; its `message_end` follows."""

    reason: Literal["aborted", "error"]
    error: Assistant


AnyDelta = (
    TextStart
    | TextDelta
    | TextEnd
    | ThinkingStart
    | ThinkingDelta
    | ThinkingEnd
    | ToolCallStart
    | ToolCallDelta
    | ToolCallEnd
    | Failure
)
