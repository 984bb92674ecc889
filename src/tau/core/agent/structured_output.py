"""Structured output: a result that is validated against a JSON schema.

The model submits the result by calling a tool, because models write JSON best as tool arguments. The result is
validated, and problems go back to the model as the tool's error. A model that stops without submitting a result is
reminded. Rejections and reminders together are limited to `attempts`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tau.core.checks.schema import (
    CHOICES,
    MAX_VALUE_DEPTH,
    REFERENCES,
    Schema,
    resolve_reference,
    schema_problems,
    validate,
    validation_error,
)
from tau.records.base import Value, convert, schema_of

MAX_ATTEMPTS = 3
TOOL_NAME = "return_result"
DESCRIPTION = (
    "Submit the result of your task. The program that gave you the task reads only what you submit here. "
    "Call this once, when the result is final. If it is rejected, fix the reported problems and call it again."
)
SNIPPET = "Submit the result of the task"
GUIDELINES = (f"Finish your task with a call of {TOOL_NAME}: only what you submit with it is read.",)
ACCEPTED = "The result was accepted."
REMINDER = (
    f"The result of the task is still missing. Submit it now by calling {TOOL_NAME}; text that you write is not read."
)
WRAPPER_PROPERTY = "result"  # the argument that holds a result that is not an object


class BadSchema(ValueError):
    """A schema that cannot be enforced. str() has one line per reason, with the place in the schema."""


class SchemaMismatch(ValueError):
    """A submitted result that does not match the schema. str() is the text for the model."""


class OutputSchema(Value):
    """The schema of a result. `read` converts a valid value; a ValueError from it also counts as a mismatch."""

    schema: Schema
    convert_value: Callable[[Any], Any] = lambda value: value
    attempts: int = MAX_ATTEMPTS

    @property
    def parameters(self) -> Schema:
        """Parameters of the result tool: the schema itself if it describes an object, else an object that wraps it."""
        if self._is_object:
            return {"type": "object", **self.schema}
        shared = {word: self.schema[word] for word in REFERENCES[1:] if word in self.schema}
        rest = {word: value for word, value in self.schema.items() if word not in shared}
        return {"type": "object", "properties": {WRAPPER_PROPERTY: rest}, "required": [WRAPPER_PROPERTY], **shared}

    def parse_result(self, arguments: dict[str, Any]) -> tuple[Any, Any]:
        """Validate submitted arguments. Return the value as JSON and as converted by `read`. Raises SchemaMismatch."""
        fitted, problems = validate(self.parameters, arguments)
        if problems:
            raise SchemaMismatch(validation_error(TOOL_NAME, problems, arguments))
        value = fitted if self._is_object else fitted[WRAPPER_PROPERTY]
        try:
            return value, self.convert_value(value)
        except ValueError as error:
            raise SchemaMismatch(validation_error(TOOL_NAME, str(error).splitlines(), arguments)) from None

    @property
    def _is_object(self) -> bool:
        """True if every valid value is evidently an object, which providers require of tool parameters."""
        return self.schema.get("type") == "object" and not any(word in self.schema for word in CHOICES)


def parse_output_schema(wanted: Any, attempts: int = MAX_ATTEMPTS) -> OutputSchema:
    """Make an OutputSchema from a JSON schema, or a type that has one.

    Raises BadSchema for other types, and for keywords that cannot be enforced.
    """
    if isinstance(wanted, dict):
        return OutputSchema(_checked(wanted), attempts=attempts)
    try:
        schema = schema_of(wanted)
    except TypeError as error:
        raise BadSchema(f"cannot make a JSON schema of {wanted!r}: {error}") from None
    return OutputSchema(_checked(schema), lambda value: convert(value, wanted), attempts)


def _checked(schema: Any) -> Schema:
    if problems := schema_problems(schema):
        raise BadSchema("\n".join(problems))
    if not isinstance(schema, dict):
        raise BadSchema("/: the schema of a result must be an object")
    return _with_root_resolved(schema)


def _with_root_resolved(schema: Schema) -> Schema:
    """Replace a reference at the root by its target, so that providers see the type of the value."""
    for _ in range(MAX_VALUE_DEPTH):
        if "$ref" not in schema:
            break
        rest = {word: value for word, value in schema.items() if word != "$ref"}
        schema = {**resolve_reference(schema, schema["$ref"]), **rest}
    return schema
