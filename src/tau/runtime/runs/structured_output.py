"""Structured output of one prompt: offers the result tool, validates results, and limits the attempts."""

from __future__ import annotations

from typing import Any

from tau.core.agent.structured_output import (
    ACCEPTED,
    DESCRIPTION,
    GUIDELINES,
    REMINDER,
    SNIPPET,
    TOOL_NAME,
    OutputSchema,
    SchemaMismatch,
)
from tau.errors import ToolError
from tau.records.base import UNSET
from tau.records.events import Outcome, StructuredOutput
from tau.records.messages import Custom, Text
from tau.runtime.clock import now
from tau.tools import Tool, ToolContext


class StructuredOutputRun:
    def __init__(self, schema: OutputSchema) -> None:
        self._schema = schema
        self._failed = 0
        self.value: Any = UNSET  # the JSON value
        self.output: Any = UNSET  # the value in the type the caller wants
        self.tool = Tool(
            TOOL_NAME,
            DESCRIPTION,
            SNIPPET,
            schema.parameters,
            self._take,
            GUIDELINES,
            # Accepts any arguments: `_take` validates them, so that it can count the failed attempts.
            schema_for=lambda given: {},
        )

    @property
    def has_result(self) -> bool:
        return self.output is not UNSET

    @property
    def done(self) -> bool:
        return self.has_result or self._failed >= self._schema.attempts

    async def _take(self, arguments: dict[str, Any], context: ToolContext) -> Outcome:
        if self.has_result:
            raise ToolError("A result was accepted already; this one does not count.")
        try:
            self.value, self.output = self._schema.parse_result(arguments)
        except SchemaMismatch as error:
            self._failed += 1
            raise ToolError(str(error)) from None
        return Outcome([Text(ACCEPTED)], {})

    def reminder(self) -> list[Custom]:
        """Return the reminder for a model that stops without a result. Counts as a failed attempt."""
        self._failed += 0 if self.has_result else 1
        return [] if self.done else [Custom("structured_output", REMINDER, display=False, timestamp=now())]

    def event(self, why: str) -> StructuredOutput:
        """Return the event with the result or the error. `why` is the error if it is not the model's fault."""
        if self.has_result:
            return StructuredOutput(self.value)
        attempts = self._schema.attempts
        return StructuredOutput(
            error=why or f"The model handed in no result that fits the schema ({attempts} attempts)."
        )
