"""Results of tool calls, as the driver reports them to the agent loop."""

from __future__ import annotations

from tau.records.base import UNSET, UnsetType, Value
from tau.records.events import Outcome
from tau.records.messages import Text, ToolCall


class ToolProgress(Value):
    call: ToolCall
    outcome: Outcome


class ToolDone(Value):
    call: ToolCall
    outcome: Outcome
    is_error: bool = False
    duration_ms: int | UnsetType = UNSET  # absent if the tool did not run


class InvalidCall(Outcome):
    """The result of a call that could not be made: its tool is unknown, or its arguments do not fit."""


def error_outcome(text: str) -> Outcome:
    return Outcome([Text(text)], {})


def invalid_call(text: str) -> InvalidCall:
    return InvalidCall([Text(text)], {})
