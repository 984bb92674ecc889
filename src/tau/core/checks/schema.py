"""Validate a value against a JSON schema: arguments of tool calls and structured output.

Models send numbers as strings and null for optional properties: both are corrected on a copy. Nothing is converted
to a string: a command that was not meant as one must not run. With `convert`, for tools of MCP servers, the
conversions of pi that lose nothing are made as well, and defaults stand for required properties that are missing.
All problems are collected, so that a model can fix them in one attempt. Where several schemas match, one that accepts
the value unchanged is preferred to one that coerces it.

CHECKED_KEYWORDS lists the supported keywords. The schema of a tool may use others, which are not checked; call
`schema_problems` first to reject a schema with unsupported keywords. `format` is checked for arguments of tools only:
elsewhere it is an annotation.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tau.core.checks.formats import matches_format
from tau.core.text.truncate import MAX_BYTES, MAX_LINES, truncate_text
from tau.records.base import MAX_RECEIVED_NESTING, BadRecord, parse

Schema = dict[str, Any]
_NUMBER = r"(?a)[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # what all providers take
MAX_VALUE_DEPTH = 64
MAX_SCHEMA_DEPTH = 128  # nested schemas; received JSON cannot be deeper
MAX_PROBLEMS = 100  # reported per value; a longer list is not read
MAX_STEPS = 300_000  # of one validation: schemas that choose among themselves can take for ever
MAX_NAME_CHARACTERS = 100  # characters of a property's name in a problem

TYPES: dict[str, Any] = {"string": str, "boolean": bool, "array": list, "object": dict, "null": type(None)}
NUMBER_BOUNDS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "minimum": (">=", operator.ge),
    "maximum": ("<=", operator.le),
    "exclusiveMinimum": (">", operator.gt),
    "exclusiveMaximum": ("<", operator.lt),
}
LENGTHS = (
    (str, "minLength", "maxLength", "characters"),
    (list, "minItems", "maxItems", "items"),
    (dict, "minProperties", "maxProperties", "properties"),
)
BOUNDS = {*NUMBER_BOUNDS, "multipleOf", *(word for _, fewest, most, _ in LENGTHS for word in (fewest, most))}
SHAPES = ("type", "enum", "const", "properties", "required", "additionalProperties", "items", "prefixItems")
CHOICES = ("anyOf", "oneOf", "allOf")
REFERENCES = ("$ref", "$defs", "definitions")
CHECKED_KEYWORDS = {*BOUNDS, "pattern", "uniqueItems", *SHAPES, *CHOICES, *REFERENCES}
UNSUPPORTED_KEYWORD = "this keyword is not supported"  # how the problem of a keyword that is not checked ends
TYPE_KEYWORDS = {"type", "enum", "const", "$ref", *CHOICES}
# Annotations for people and models; they constrain nothing.
ANNOTATION_KEYWORDS = {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"}
ANNOTATION_KEYWORDS |= {"format", "discriminator", "$schema", "$id", "$comment", "contentEncoding", "contentMediaType"}


def check_arguments(schema: Schema, arguments: Any, *, convert: bool = False) -> tuple[dict[str, Any], list[str]]:
    """Validate arguments. Return the coerced arguments and the problems, one line each."""
    problems: list[str] = []
    try:
        value = _Validator(schema, formats=True, convert=convert).fit(schema, arguments, "", problems)
    except (TypeError, AttributeError, LookupError, ArithmeticError) as error:  # a keyword with a value of a wrong type
        return {}, [f"root: the schema of this tool is invalid: {error}"]
    return (value if isinstance(value, dict) else {}), problems


def validate(schema: Schema, value: Any) -> tuple[Any, list[str]]:
    """The same for any value."""
    problems: list[str] = []
    return _Validator(schema).fit(schema, value, "", problems), problems


def validation_error(tool: str, problems: list[str], arguments: Any) -> str:
    """The error text for the model about invalid arguments."""
    listed = "\n".join(f"  - {problem}" for problem in problems)
    return validation_error_text(tool, listed, _indented(arguments))


def validation_error_text(tool: str, listed: str, shown: str) -> str:
    """The same from its parts, truncated so that together they stay within the limits of a result."""
    lines, size = MAX_LINES // 2 - 4, MAX_BYTES // 2 - 512
    listed, shown = (truncate_text(part, max_lines=lines, max_bytes=size) for part in (listed, shown))
    return f'Validation failed for tool "{tool[:256]}":\n{listed}\n\nReceived arguments:\n{shown}'


def _indented(arguments: Any) -> str:
    """Indented JSON, or slightly more of its beginning than a result can hold: indentation inflates nested lists."""
    encoder = json.JSONEncoder(indent=2, ensure_ascii=False, default=str)
    chunks: list[str] = []
    remaining = MAX_BYTES
    for chunk in encoder.iterencode(arguments):
        chunks.append(chunk)
        remaining -= len(chunk)
        if remaining < 0:
            break
    return "".join(chunks)


class _Validator:
    """Validates one value; keeps the whole schema for references."""

    def __init__(self, root: Schema, *, formats: bool = False, convert: bool = False) -> None:
        """`formats`: also check the keyword `format`. `convert`: see the docstring of the module."""
        self._root = root
        self._formats = formats
        self._convert = convert
        self._depth = 0
        self._steps = 0

    def fit(self, schema: Any, value: Any, path: str, problems: list[str]) -> Any:
        if len(problems) >= MAX_PROBLEMS:
            return value
        if not isinstance(schema, dict):  # true accepts everything, false nothing
            if schema is False:
                problems.append(f"{path or 'root'}: must not be present")
            return value
        if self._depth >= MAX_VALUE_DEPTH:
            problems.append(f"{path or 'root'}: nested too deeply")
            return value
        self._steps += 1 + len(schema.get("enum", ())) // 4
        if self._steps > MAX_STEPS:
            problems.append(f"{path or 'root'}: too much to check")
            return value
        self._depth += 1
        try:
            return self._fit(schema, value, path, problems)
        finally:
            self._depth -= 1

    def _fit(self, schema: Schema, value: Any, path: str, problems: list[str]) -> Any:
        before = len(problems)
        if "$ref" in schema:
            value = self.fit(resolve_reference(self._root, schema["$ref"]), value, path, problems)
        for part in schema.get("allOf", ()):
            value = self.fit(part, value, path, problems)
        for choice in ("anyOf", "oneOf"):
            if choice in schema:
                value = self._one_of(schema[choice], value, path, problems, only_one=choice == "oneOf")
        if len(problems) > before:
            return value
        kind = schema.get("type")
        if not _has_type(kind, value):
            coerced = (_coerce_value(name, value) for name in (kind if isinstance(kind, list) else [kind]))
            value = next((one for one in coerced if _has_type(kind, one)), value)
        if self._convert and kind is not None and not _has_type(kind, value):
            value = _converted(kind, value)
        if kind is not None and not _has_type(kind, value):
            problems.append(f"{path or 'root'}: must be {kind if isinstance(kind, str) else ' or '.join(kind)}")
            return value
        problems += (f"{path or 'root'}: {problem}" for problem in _enum_problems(schema, value))
        problems += (f"{path or 'root'}: {problem}" for problem in _bound_problems(schema, value))
        if self._formats and isinstance(value, str) and not matches_format(schema.get("format"), value):
            problems.append(f'{path or "root"}: must match format "{schema["format"]}"')
        if isinstance(value, dict):
            return self._object(schema, value, path, problems)
        if isinstance(value, list):
            return self._list(schema, value, path, problems)
        return value

    def _object(self, schema: Schema, value: dict[str, Any], path: str, problems: list[str]) -> dict[str, Any]:
        properties, required = schema.get("properties", {}), schema.get("required", [])
        others = schema.get("additionalProperties", True)
        fitted: dict[str, Any] = {}
        for name in required:
            if name in value and (value[name] is not None or self._takes_null(properties.get(name))):
                continue
            if self._has_default(properties.get(name)):
                value = {**value, name: properties[name]["default"]}
            elif name not in value:
                problems.append(f"{_join(path, name)}: must have required property '{name}'")
        for name, item in value.items():
            if name not in properties:
                if others is False:
                    problems.append(f"{_join(path, name)}: unknown field")
                else:
                    fitted[name] = self.fit(others, item, _join(path, name), problems)
                continue
            if item is None and name not in required and not self._takes_null(properties[name]):
                continue
            fitted[name] = self.fit(properties[name], item, _join(path, name), problems)
        return fitted

    def _list(self, schema: Schema, value: list[Any], path: str, problems: list[str]) -> list[Any]:
        first, rest = schema.get("prefixItems", []), schema.get("items", True)
        if isinstance(rest, list):  # as before the 2020 edition of JSON schema, and in the tuples of typebox
            first, rest = rest, schema.get("additionalItems", True)
        return [
            self.fit(first[at] if at < len(first) else rest, item, _join(path, str(at)), problems)
            for at, item in enumerate(value)
        ]

    def _one_of(self, choices: Sequence[Any], value: Any, path: str, problems: list[str], *, only_one: bool) -> Any:
        rejected: list[list[str]] = []
        accepted: list[Any] = []
        for choice in choices:
            own_problems: list[str] = []
            fitted = self.fit(choice, value, path, own_problems)
            if own_problems:
                rejected.append(own_problems)
            else:
                accepted.append(fitted)
        unchanged = [fitted for fitted in accepted if _json_equal(fitted, value)]
        if only_one and len(unchanged) > 1:
            problems.append(
                f"{path or 'root'}: must match exactly one of several schemas, but matches {len(unchanged)}"
            )
        if accepted:
            return (unchanged or accepted)[0]
        if rejected:  # report the closest choice: usually the one that fails deepest
            closest: list[str] = max(rejected, key=_depth)
            problems += closest
        return value

    def _has_default(self, schema: Any) -> bool:
        """True if a default of the schema stands for a missing value; one that does not fit does not."""
        if not self._convert or not isinstance(schema, dict) or "default" not in schema:
            return False
        problems: list[str] = []
        self.fit(schema, schema["default"], "", problems)
        return not problems

    def _takes_null(self, schema: Any) -> bool:
        """True if the schema constrains the type and accepts null."""
        if not isinstance(schema, dict) or TYPE_KEYWORDS.isdisjoint(schema):
            return False
        problems: list[str] = []
        self.fit(schema, None, "", problems)
        return not problems


def _depth(problems: list[str]) -> int:
    return problems[0].partition(":")[0].count("/")


def is_readable(schema: Any) -> bool:
    """True if a schema can be applied; keywords that are not checked are no obstacle."""
    return all(problem.endswith(UNSUPPORTED_KEYWORD) for problem in schema_problems(schema))


def without_patterns(value: Any) -> Any:
    """A schema of a stranger without regular expressions: on some texts one can take for ever."""
    if isinstance(value, list):
        return [without_patterns(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept: Schema = {}
    for word, item in value.items():
        if word == "pattern" and isinstance(item, str):
            continue
        safe = without_patterns(item)
        if word not in ("enum", "const") or safe == item:  # values are not changed; a reference may lead to them
            kept[word] = safe
    return kept


def schema_problems(schema: Any) -> list[str]:
    """Problems of a schema: keywords that are unsupported or invalid; one line each, with the place."""
    return list(_problems_in(schema, schema, "", 0))


def _problems_in(root: Any, schema: Any, place: str, depth: int) -> Iterator[str]:
    here = place or "/"
    if isinstance(schema, bool):
        return
    if depth > MAX_SCHEMA_DEPTH:
        yield f"{here[:80]}...: nested too deeply"
        return
    if not isinstance(schema, dict):
        yield f"{here}: a schema must be an object, true or false"
        return
    for word, value in schema.items():
        if word not in CHECKED_KEYWORDS and word not in ANNOTATION_KEYWORDS:
            yield f"{place}/{word}: {UNSUPPORTED_KEYWORD}"
        elif (problem := _keyword_problem(root, word, value)) is not None:
            yield f"{place}/{word}: {problem}"
        else:
            for step, part in _subschemas(word, value):
                yield from _problems_in(root, part, f"{place}/{word}{step}", depth + 1)


def tool_problem(name: str, parameters: Schema) -> str | None:
    """Why a model cannot be offered a tool, or None. Keywords that are not checked are passed on to the model."""
    if TOOL_NAME.fullmatch(name) is None:
        return f"name: {name[:80]!r} does not match {TOOL_NAME.pattern}"
    if parameters.get("type") != "object":
        return 'parameters: expected a schema with "type": "object"'
    checked = (problem for problem in schema_problems(parameters) if not problem.endswith(UNSUPPORTED_KEYWORD))
    return next((f"parameters: {problem}" for problem in checked), None)


def _subschemas(word: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The schemas inside a keyword, each with its path."""
    if word in ("properties", "$defs", "definitions"):
        yield from ((f"/{name}", part) for name, part in value.items())
    elif word in (*CHOICES, "prefixItems"):
        yield from ((f"/{at}", part) for at, part in enumerate(value))
    elif word in ("items", "additionalProperties"):
        yield "", value


def _keyword_problem(root: Any, word: str, value: Any) -> str | None:
    """Why a keyword cannot be applied, or None."""
    if word in ("properties", "$defs", "definitions") and not isinstance(value, dict):
        return "must be an object of schemas"
    if word in (*CHOICES, "prefixItems", "enum", "required") and not isinstance(value, list):
        return "must be a list"
    if word in CHOICES and not value:
        return "must not be empty"
    if word == "type":
        names = value if isinstance(value, list) else [value]
        unknown_types = [
            name for name in names if not isinstance(name, str) or name not in {*TYPES, "number", "integer"}
        ]
        return f"there is no type {unknown_types[0]!r}" if unknown_types else None
    if word == "$ref":
        if not isinstance(value, str) or not value.startswith("#"):
            return "only references into the same schema (#/...) are supported"
        return None if resolve_reference(root, value, None) is not None else f"there is nothing at {value}"
    if word == "pattern":
        return None if _compiled(value) is not None else f"invalid regular expression: {value!r}"
    if word in BOUNDS and (isinstance(value, bool) or not isinstance(value, int | float)):
        return "must be a number"
    return None


def resolve_reference(root: Any, reference: Any, otherwise: Any = True) -> Any:
    """Resolve a reference such as `#/$defs/Name`."""
    found = root
    if not isinstance(reference, str) or not reference.startswith("#"):
        return otherwise
    for step in reference[1:].split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and step in found:
            found = found[step]
        elif isinstance(found, list) and step.isdecimal() and len(step) < 10 and int(step) < len(found):
            found = found[int(step)]
        else:
            return otherwise
    return found


def _enum_problems(schema: Schema, value: Any) -> Iterator[str]:
    if "enum" in schema and not any(_json_equal(value, item) for item in schema["enum"]):
        yield f"must be one of {', '.join(str(item) for item in schema['enum'])}"
    if "const" in schema and not _json_equal(value, schema["const"]):
        yield f"must be {json.dumps(schema['const'], ensure_ascii=False)}"


def _bound_problems(schema: Schema, value: Any) -> Iterator[str]:
    if isinstance(value, bool):
        return
    if isinstance(value, int | float):
        yield from (
            f"must be {sign} {limit}"
            for word, (sign, ok) in NUMBER_BOUNDS.items()
            if (limit := _limit(schema, word)) is not None and not ok(value, limit)
        )
        if (step := _limit(schema, "multipleOf")) and not _is_multiple(value, step):
            yield f"must be a multiple of {step}"
        return
    for kind, fewest, most, what in LENGTHS:
        if isinstance(value, kind):
            if (least := _limit(schema, fewest)) is not None and len(value) < least:
                yield f"must NOT have fewer than {least} {what}"
            if (limit := _limit(schema, most)) is not None and len(value) > limit:
                yield f"must NOT have more than {limit} {what}"
    if isinstance(value, str) and "pattern" in schema and not _matches(schema["pattern"], value):
        yield f'must match pattern "{schema["pattern"]}"'
    if isinstance(value, list) and schema.get("uniqueItems") is True and _has_duplicates(value):
        yield "must NOT have duplicate items"


def _matches(pattern: Any, text: str) -> bool:
    from tau.core.checks.linear_patterns import matches_pattern  # most schemas have no pattern

    return matches_pattern(pattern, text)


def _limit(schema: Schema, word: str) -> int | float | None:
    value = schema.get(word)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _is_multiple(value: int | float, step: int | float) -> bool:
    if isinstance(value, int) and isinstance(step, int):
        return value % step == 0
    try:
        return abs(value / step - round(value / step)) <= 1e-9
    except OverflowError:  # the quotient is beyond all floats
        return False


def _has_duplicates(items: list[Any]) -> bool:
    return len(set(map(_hashable, items))) < len(items)


def _hashable(value: Any) -> Any:
    """A key that is equal for values that are equal as JSON."""
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, list):
        return ("list", tuple(map(_hashable, value)))
    if isinstance(value, dict):
        return ("object", frozenset((name, _hashable(item)) for name, item in value.items()))
    return value


def _compiled(pattern: Any) -> re.Pattern[str] | None:
    try:
        return re.compile(pattern)
    except (re.error, TypeError, RecursionError, OverflowError):
        return None


def _coerce_value(kind: Any, value: Any) -> Any:
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
            parsed = parse(value.encode("utf-8", "surrogatepass"), MAX_RECEIVED_NESTING)
        except BadRecord:
            return value
        return parsed if _has_type(kind, parsed) else value
    return value


def _converted(kind: Any, value: Any) -> Any:
    """A value of another type as one of `kind`, in the conversions of pi 1.5 that lose nothing; else unchanged."""
    for name in kind if isinstance(kind, list) else [kind]:
        if _has_type(name, coerced := _coerce_value(name, value)):
            return coerced
        if name == "string" and isinstance(value, bool | int | float):
            number = int(value) if isinstance(value, float) and value.is_integer() else value
            return json.dumps(number)
        if name in ("number", "integer") and (isinstance(value, bool) or value in ("true", "false")):
            return int(value in (True, "true"))
        if name == "boolean" and isinstance(value, int | float) and value in (0, 1):
            return bool(value)
        if name == "array" and value is not None:
            return [value]
    return value


def _number(text: str) -> int | float | None:
    if not re.fullmatch(_NUMBER, text.strip()):
        return None
    try:
        return int(text)
    except ValueError:
        number = float(text)
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() else number


def _json_equal(first: Any, second: Any) -> bool:
    """Equal as JSON: true is not 1, but 1.0 is."""
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(_json_equal, first, second))
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(_json_equal(item, second[name]) for name, item in first.items())
    return bool(first == second)


def _has_type(kind: Any, value: Any) -> bool:
    if isinstance(kind, list):
        return any(_has_type(name, value) for name in kind)
    if kind in ("number", "integer"):
        return isinstance(value, int if kind == "integer" else (int, float)) and not isinstance(value, bool)
    return isinstance(value, TYPES[kind]) if kind in TYPES else True


def _join(path: str, name: str) -> str:
    short = name if len(name) <= MAX_NAME_CHARACTERS else f"{name[:MAX_NAME_CHARACTERS]}..."
    return f"{path}/{short}".lstrip("/")
