"""Check a tool call's arguments against the tool's JSON schema.

Models send numbers as strings and null for what is optional: both are put right
on a copy. Nothing is ever turned into a string, since a command that was not
meant as one must not run. All problems are collected, so that a model can mend
them in one go. Covers what tool schemas use: type, properties, required, items,
enum, minimum, maximum, minLength, additionalProperties, anyOf.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from tau.records.base import BadRecord, parse

Schema = dict[str, Any]
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


def check(schema: Schema, arguments: Any) -> tuple[dict[str, Any], list[str]]:
    """The arguments to run with, and what is wrong with them, one line each."""
    problems: list[str] = []
    value = _fit(schema, arguments, "", problems)
    return (value if isinstance(value, dict) else {}), problems


def complaint(tool: str, problems: list[str], arguments: Any) -> str:
    """What the model is told about arguments that do not fit."""
    listed = "\n".join(f"  - {problem}" for problem in problems)
    shown = json.dumps(arguments, indent=2, ensure_ascii=False, default=str)
    return f'Validation failed for tool "{tool}":\n{listed}\n\nReceived arguments:\n{shown}'


def _fit(schema: Schema, value: Any, path: str, problems: list[str]) -> Any:
    if "anyOf" in schema:
        return _fit_any(schema["anyOf"], value, path, problems)
    kind = schema.get("type")
    value = _coerced(kind, value)
    if kind is not None and not _is(kind, value):
        problems.append(f"{path or 'root'}: must be {kind}")
        return value
    if "enum" in schema and value not in schema["enum"]:
        allowed = ", ".join(str(item) for item in schema["enum"])
        problems.append(f"{path or 'root'}: must be one of {allowed}")
    if isinstance(value, dict):
        return _fit_object(schema, value, path, problems)
    if isinstance(value, list) and "items" in schema:
        return [_fit(schema["items"], item, f"{path}/{at}".lstrip("/"), problems) for at, item in enumerate(value)]
    _fit_bounds(schema, value, path, problems)
    return value


def _fit_object(schema: Schema, value: dict[str, Any], path: str, problems: list[str]) -> dict[str, Any]:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    fitted: dict[str, Any] = {}
    for name in required:
        if name not in value:
            problems.append(f"{_join(path, name)}: must have required property '{name}'")
    for name, item in value.items():
        if name not in properties:
            if schema.get("additionalProperties") is not False:
                fitted[name] = item
            continue
        if item is None and name not in required and not _takes_null(properties[name]):
            continue
        fitted[name] = _fit(properties[name], item, _join(path, name), problems)
    return fitted


def _fit_any(choices: list[Schema], value: Any, path: str, problems: list[str]) -> Any:
    first: list[str] = []
    for choice in choices:
        mine: list[str] = []
        fitted = _fit(choice, value, path, mine)
        if not mine:
            return fitted
        first = first or mine
    problems += first
    return value


def _fit_bounds(schema: Schema, value: Any, path: str, problems: list[str]) -> None:
    if isinstance(value, bool):
        return
    if isinstance(value, int | float):
        if "minimum" in schema and value < schema["minimum"]:
            problems.append(f"{path or 'root'}: must be >= {schema['minimum']}")
        if "maximum" in schema and value > schema["maximum"]:
            problems.append(f"{path or 'root'}: must be <= {schema['maximum']}")
    if isinstance(value, str) and len(value) < schema.get("minLength", 0):
        problems.append(f"{path or 'root'}: must NOT have fewer than {schema['minLength']} characters")


def _coerced(kind: Any, value: Any) -> Any:
    if not isinstance(value, str):
        if kind == "integer" and isinstance(value, float) and value.is_integer():
            return int(value)
        return value
    if kind in ("number", "integer"):
        number = _number(value)
        return value if number is None or (kind == "integer" and not isinstance(number, int)) else number
    if kind == "boolean" and value in ("true", "false"):
        return value == "true"
    if kind in ("array", "object"):
        try:
            return parse(value.encode("utf-8", "surrogatepass"))
        except BadRecord:
            return value
    return value


def _number(text: str) -> int | float | None:
    if not _NUMBER.fullmatch(text.strip()):
        return None
    try:
        return int(text)
    except ValueError:
        number = float(text)
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() else number


def _takes_null(schema: Schema) -> bool:
    if "anyOf" in schema:
        return any(_takes_null(choice) for choice in schema["anyOf"])
    return schema.get("type") is not None and _is(schema["type"], None)


def _is(kind: Any, value: Any) -> bool:
    if isinstance(kind, list):
        return any(_is(one, value) for one in kind)
    if kind in ("number", "integer"):
        return isinstance(value, int if kind == "integer" else (int, float)) and not isinstance(value, bool)
    types: dict[str, Any] = {"string": str, "boolean": bool, "array": list, "object": dict, "null": type(None)}
    return isinstance(value, types[kind]) if kind in types else True


def _join(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name
