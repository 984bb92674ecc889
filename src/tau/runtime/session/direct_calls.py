"""Calls of tools without a model: checked, permitted, executed and reviewed as those of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tau.core.agent.tool_results import ToolDone, error_outcome
from tau.errors import ToolError
from tau.records.events import Outcome
from tau.records.messages import ToolCall
from tau.runtime.runs.tool_runner import ToolRunner
from tau.tools.partial_result import ErrorResult


async def call_tool(
    tools: ToolRunner, call: ToolCall, progress: Callable[[Outcome], None] = lambda outcome: None
) -> tuple[Outcome, bool]:
    """Call a tool. Returns its result, and True if it is an error. Cancelling this cancels the tool."""
    arguments: dict[str, Any] | Outcome = await tools.check(call)
    if isinstance(arguments, Outcome):
        return arguments, True
    if (refusal := await tools.permit(call, arguments)) is not None:
        return refusal, True
    try:
        done = ToolDone(call, await tools.execute(call, arguments, progress))
    except ErrorResult as error:
        done = ToolDone(call, Outcome(error.content, error.details), is_error=True)
    except ToolError as error:
        done = ToolDone(call, error_outcome(str(error)), is_error=True)
    done = await tools.review(done, arguments)
    return done.outcome, done.is_error
