"""The result that one prompt is after: lends the model the tool to hand it in, and knows when to stop asking."""

from __future__ import annotations

from typing import Any

from tau.core.agent.structured_output import (
    ACCEPTED,
    DESCRIPTION,
    GUIDELINES,
    NAME,
    REMINDER,
    SNIPPET,
    OutputSchema,
    SchemaMismatch,
)
from tau.errors import ToolError
from tau.records.base import UNSET
from tau.records.events import Outcome, StructuredOutput
from tau.records.messages import Custom, Text
from tau.runtime.history.session_log import now
from tau.tools import Tool, ToolContext


class StructuredOutputRun:
    def __init__(self, aim: OutputSchema) -> None:
        self._aim = aim
        self._failed = 0
        self.value: Any = UNSET  # as JSON has it
        self.output: Any = UNSET  # as the program wants it
        self.tool = Tool(
            NAME,
            DESCRIPTION,
            SNIPPET,
            aim.parameters,
            self._take,
            GUIDELINES,
            # Everything is taken and looked at here: so it is known how often it did not fit.
            schema_for=lambda given: {},
        )

    @property
    def has_result(self) -> bool:
        return self.output is not UNSET

    @property
    def done(self) -> bool:
        return self.has_result or self._failed >= self._aim.attempts

    async def _take(self, arguments: dict[str, Any], context: ToolContext) -> Outcome:
        if self.has_result:
            raise ToolError("A result was accepted already; this one does not count.")
        try:
            self.value, self.output = self._aim.reading(arguments)
        except SchemaMismatch as error:
            self._failed += 1
            raise ToolError(str(error)) from None
        return Outcome([Text(ACCEPTED)], {})

    def reminder(self) -> list[Custom]:
        """What to say to a model that stops without a result."""
        self._failed += 0 if self.has_result else 1
        return [] if self.done else [Custom("structured_output", REMINDER, display=False, timestamp=now())]

    def event(self, why: str) -> StructuredOutput:
        """`why` there is no result, if it is not the model's fault."""
        if self.has_result:
            return StructuredOutput(self.value)
        tries = self._aim.attempts
        return StructuredOutput(error=why or f"The model handed in no result that fits the schema ({tries} attempts).")
