"""Elicitation forms: which questions a server's schema means, and whether an answer is valid.

Only flat objects of at most MAX_FIELDS fields are asked about. A form that asks for a secret is declined without a
question, because its answer would pass through a model's conversation and a stranger's log.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from tau.core.checks.schema import is_readable, validate, without_patterns
from tau.mcp.definitions import safe_text
from tau.records.base import Value

MAX_FIELDS = 10
MAX_OPTIONS = 100
MAX_TEXT_BYTES = 2 * 1024
_SECRET = re.compile(r"passw|passphrase|secret|token|api[_-]?key|credential|private[_-]?key|\bpin\b", re.IGNORECASE)

Kind = Literal["select", "several", "boolean", "string", "number", "integer"]


class BadAnswer(ValueError):
    """An answer that the schema does not allow. The text is the reason."""


class FormField(Value):
    """One question. `options`: what is shown for each value to choose from."""

    name: str
    kind: Kind
    title: str
    description: str
    required: bool
    schema: Mapping[str, Any]
    options: tuple[tuple[str, str], ...] = ()
    default: str = ""


class Form(Value):
    message: str
    fields: tuple[FormField, ...]


def parse_form(params: Mapping[str, Any]) -> Form | None:
    """The questions of an elicitation; None if it must be declined without asking."""
    schema = params.get("requestedSchema")
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or not 0 < len(properties) <= MAX_FIELDS:
        return None
    required = schema.get("required") if isinstance(schema, Mapping) else None
    needed = set(map(str, required)) if isinstance(required, list) else set()
    fields = [_field(str(name), inner, str(name) in needed) for name, inner in properties.items()]
    found = tuple(field for field in fields if field is not None)
    return Form(safe_text(params.get("message"), MAX_TEXT_BYTES), found) if len(found) == len(fields) else None


def _field(name: str, schema: Any, required: bool) -> FormField | None:
    if not isinstance(schema, Mapping) or not is_readable(schema):
        return None
    schema = without_patterns(schema)
    title = safe_text(schema.get("title"), 256)
    if schema.get("format") == "password" or _SECRET.search(f"{name} {title}"):
        return None
    kind, options = _kind(schema)
    if kind is None:
        return None
    default = schema.get("default")
    shown = "" if default is None else _written(default)
    description = safe_text(schema.get("description"), MAX_TEXT_BYTES)
    return FormField(name, kind, title or safe_text(name, 256), description, required, schema, options, shown)


def _kind(schema: Mapping[str, Any]) -> tuple[Kind | None, tuple[tuple[str, str], ...]]:
    kind = schema.get("type")
    if kind == "array":
        items = schema.get("items")
        options = _options(items) if isinstance(items, Mapping) else ()
        return ("several", options) if options else (None, ())
    if options := _options(schema):
        return "select", options
    if kind in ("boolean", "string", "number", "integer"):
        return kind, ()
    return None, ()


def _options(schema: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Labels and values to choose from: `enum` with or without `enumNames`, `oneOf` or `anyOf` of constants."""
    values = schema.get("enum")
    if isinstance(values, list) and values and all(isinstance(value, str) for value in values):
        names = schema.get("enumNames")
        labels = names if isinstance(names, list) and len(names) == len(values) else values
        return _labelled([(str(label), value) for label, value in zip(labels, values, strict=True)])
    choices = schema.get("oneOf", schema.get("anyOf"))
    if isinstance(choices, list) and choices and all(isinstance(one, Mapping) for one in choices):
        if not all(isinstance(one.get("const"), str) for one in choices):
            return ()
        return _labelled([(str(one.get("title") or one["const"]), one["const"]) for one in choices])
    return ()


def _labelled(options: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Options with labels that differ from each other."""
    found: dict[str, str] = {}
    for label, value in options[:MAX_OPTIONS]:
        label = safe_text(label, 256) or safe_text(value, 256)
        found[label if label not in found else f"{label} ({safe_text(value, 256)})"] = value
    return tuple(found.items())


def parse_answer(field: FormField, text: str) -> Any:
    """The value that a text means for a field. Raises BadAnswer."""
    value: Any = text
    if field.kind in ("number", "integer"):
        try:
            value = int(text) if field.kind == "integer" or text.strip().lstrip("+-").isdecimal() else float(text)
        except (ValueError, OverflowError):
            raise BadAnswer("it must be a whole number" if field.kind == "integer" else "it must be a number") from None
    return checked(field, value)


def checked(field: FormField, value: Any) -> Any:
    """`value` if the schema of the field allows it. Raises BadAnswer."""
    _, problems = validate(dict(field.schema), value)
    if problems:
        raise BadAnswer(problems[0].removeprefix("root: "))
    return value


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return safe_text(str(value), 256) if isinstance(value, str | int | float) else ""
