"""A result in a shape that somebody asked for.

The model hands it in by calling a tool, since arguments of tools are what models
write as JSON best. What is handed in is checked, and what is wrong with it goes
back as the tool's error, to be mended. A model that stops without handing in
anything is reminded. Both together happen at most `attempts` times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tau.core.checks.schema import CHOICES, DEEPEST, REFERENCES, Schema, complaint, fit, referred, unknown
from tau.records.base import BadRecord, Value, convert, schema_of

ATTEMPTS = 3
NAME = "return_result"
DESCRIPTION = (
    "Hand in the result of your task. The program that gave you the task reads what you hand in here and nothing else. "
    "Call this once, when the result is final. If it is refused, mend what is named and call it again."
)
SNIPPET = "Hand in the result of the task"
GUIDELINES = (f"Your task ends with a call of {NAME}: only what you hand in with it is read.",)
ACCEPTED = "The result was accepted."
REMINDER = (
    f"The result of the task is still missing. Hand it in now by calling {NAME}; text that you write is not read."
)
WRAPPED = "result"  # the argument that holds a result which is no object


class BadSchema(ValueError):
    """A schema that cannot be kept to; str() is a line for each reason, with the place in the schema."""


class Misfit(ValueError):
    """What was handed in does not fit; str() is what the model is told."""


class Aim(Value):
    """`read` makes what the program wants of a value that fits the schema; a ValueError from it is a misfit, too."""

    schema: Schema
    read: Callable[[Any], Any] = lambda value: value
    attempts: int = ATTEMPTS

    @property
    def parameters(self) -> Schema:
        """The arguments of the tool: the schema itself, where it is of an object."""
        if self._is_object:
            return {"type": "object", **self.schema}
        shared = {word: self.schema[word] for word in REFERENCES[1:] if word in self.schema}
        rest = {word: said for word, said in self.schema.items() if word not in shared}
        return {"type": "object", "properties": {WRAPPED: rest}, "required": [WRAPPED], **shared}

    def reading(self, arguments: dict[str, Any]) -> tuple[Any, Any]:
        """What was handed in, as JSON and as the program wants it. Raises Misfit."""
        fitted, problems = fit(self.parameters, arguments)
        if problems:
            raise Misfit(complaint(NAME, problems, arguments))
        value = fitted if self._is_object else fitted[WRAPPED]
        try:
            return value, self.read(value)
        except ValueError as error:
            raise Misfit(complaint(NAME, str(error).splitlines(), arguments)) from None

    @property
    def _is_object(self) -> bool:
        """Whether it is plain to see that every value that fits is an object: providers want that of arguments."""
        return self.schema.get("type") == "object" and not any(word in self.schema for word in CHOICES)


def aim_at(wanted: Any, attempts: int = ATTEMPTS) -> Aim:
    """What to aim at, from a JSON schema, a pydantic model, or whatever msgspec has a schema for: Structs, dataclasses.

    Raises BadSchema where a schema says what could not be kept.
    """
    if isinstance(wanted, dict):
        return Aim(_sound(wanted), attempts=attempts)
    if hasattr(wanted, "model_json_schema"):  # pydantic's way; it is not needed to know it
        return Aim(_sound(wanted.model_json_schema()), wanted.model_validate, attempts)
    try:
        schema = schema_of(wanted)
    except TypeError as error:
        raise BadSchema(f"no JSON schema can be made of {wanted!r}: {error}") from None
    return Aim(_sound(schema), lambda value: _converted(value, wanted), attempts)


def _converted(value: Any, kind: Any) -> Any:
    try:
        return convert(value, kind)
    except BadRecord as error:
        raise ValueError(str(error)) from None


def _sound(schema: Any) -> Schema:
    if problems := unknown(schema):
        raise BadSchema("\n".join(problems))
    if not isinstance(schema, dict):
        raise BadSchema("/: a schema for results is an object")
    return _unfolded(schema)


def _unfolded(schema: Schema) -> Schema:
    """With what it refers to as a whole in its place, so that everybody sees what kind of value it is of."""
    for _ in range(DEEPEST):
        if "$ref" not in schema:
            break
        rest = {word: said for word, said in schema.items() if word != "$ref"}
        schema = {**referred(schema, schema["$ref"]), **rest}
    return schema
