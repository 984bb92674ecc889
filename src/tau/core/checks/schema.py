"""Check a value against a JSON schema: the arguments of a tool call, and a result that was asked for in a shape.

Models send numbers as strings and null for what is optional: both are put right
on a copy. Nothing is ever turned into a string, since a command that was not
meant as one must not run. All problems are collected, so that a model can mend
them in one go. Where several schemas could fit, one that takes the value as it
is comes before one that takes it changed.

What is checked stands in CHECKED. A tool may say more than that, and is believed;
who wants to be sure that every word of a schema counts asks `unknown` first.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tau.core.text.truncate import MAX_BYTES, MAX_LINES, cut
from tau.records.base import MAX_RECEIVED_NESTING, BadRecord, parse

Schema = dict[str, Any]
_NUMBER = r"(?a)[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
DEEPEST = 64
DEEPEST_SCHEMA = 128  # schemas in each other; JSON that is received cannot hold more
MOST_PROBLEMS = 100  # that are told; the value does not fit, and nobody reads more of them
LONGEST_NAME = 100  # characters of a property's name in a problem

TYPES: dict[str, Any] = {"string": str, "boolean": bool, "array": list, "object": dict, "null": type(None)}
NUMBERS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
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
BOUNDS = {*NUMBERS, "multipleOf", *(word for _, fewest, most, _ in LENGTHS for word in (fewest, most))}
SHAPES = ("type", "enum", "const", "properties", "required", "additionalProperties", "items", "prefixItems")
CHOICES = ("anyOf", "oneOf", "allOf")
REFERENCES = ("$ref", "$defs", "definitions")
CHECKED = {*BOUNDS, "pattern", "uniqueItems", *SHAPES, *CHOICES, *REFERENCES}
SAYING = {"type", "enum", "const", "$ref", *CHOICES}
# These tell people and models something, and ask for nothing.
TOLD = {
    *("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "format", "discriminator"),
    *("$schema", "$id", "$comment", "contentEncoding", "contentMediaType"),
}


def check(schema: Schema, arguments: Any) -> tuple[dict[str, Any], list[str]]:
    """The arguments to run with, and what is wrong with them, one line each."""
    value, problems = fit(schema, arguments)
    return (value if isinstance(value, dict) else {}), problems


def fit(schema: Schema, value: Any) -> tuple[Any, list[str]]:
    """The same for any value."""
    problems: list[str] = []
    return _Fitting(schema).fit(schema, value, "", problems), problems


def complaint(tool: str, problems: list[str], arguments: Any) -> str:
    """What the model is told about arguments that do not fit."""
    listed = "\n".join(f"  - {problem}" for problem in problems)
    return refused_arguments(tool, listed, _indented(arguments))


def refused_arguments(tool: str, listed: str, shown: str) -> str:
    """The same from its parts, cut so that together they stay within the limits of a result."""
    lines, size = MAX_LINES // 2 - 4, MAX_BYTES // 2 - 512
    listed, shown = (cut(part, max_lines=lines, max_bytes=size) for part in (listed, shown))
    return f'Validation failed for tool "{tool[:256]}":\n{listed}\n\nReceived arguments:\n{shown}'


def _indented(arguments: Any) -> str:
    """As JSON, or somewhat more of its beginning than a result can hold: nested lists are much longer indented."""
    encoder = json.JSONEncoder(indent=2, ensure_ascii=False, default=str)
    pieces: list[str] = []
    left = MAX_BYTES
    for piece in encoder.iterencode(arguments):
        pieces.append(piece)
        left -= len(piece)
        if left < 0:
            break
    return "".join(pieces)


class _Fitting:
    """One value and one schema; the whole schema is at hand for what it refers to."""

    def __init__(self, whole: Schema) -> None:
        self._whole = whole
        self._depth = 0

    def fit(self, schema: Any, value: Any, path: str, problems: list[str]) -> Any:
        if len(problems) >= MOST_PROBLEMS:
            return value
        if not isinstance(schema, dict):  # true takes everything, false nothing
            if schema is False:
                problems.append(f"{path or 'root'}: must not be there")
            return value
        if self._depth >= DEEPEST:
            problems.append(f"{path or 'root'}: nested too deeply")
            return value
        self._depth += 1
        try:
            return self._fit(schema, value, path, problems)
        finally:
            self._depth -= 1

    def _fit(self, schema: Schema, value: Any, path: str, problems: list[str]) -> Any:
        before = len(problems)
        if "$ref" in schema:
            value = self.fit(referred(self._whole, schema["$ref"]), value, path, problems)
        for part in schema.get("allOf", ()):
            value = self.fit(part, value, path, problems)
        for choice in ("anyOf", "oneOf"):
            if choice in schema:
                value = self._one_of(schema[choice], value, path, problems, only_one=choice == "oneOf")
        if len(problems) > before:
            return value
        kind = schema.get("type")
        value = _coerced(kind, value)
        if kind is not None and not _is(kind, value):
            problems.append(f"{path or 'root'}: must be {kind if isinstance(kind, str) else ' or '.join(kind)}")
            return value
        problems += (f"{path or 'root'}: {problem}" for problem in _unequal(schema, value))
        problems += (f"{path or 'root'}: {problem}" for problem in _out_of_bounds(schema, value))
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
            if name not in value:
                problems.append(f"{_join(path, name)}: must have required property '{name}'")
        for name, item in value.items():
            if name not in properties:
                if others is not False:  # what was not asked for is left out where it may not be
                    fitted[name] = self.fit(others, item, _join(path, name), problems)
                continue
            if item is None and name not in required and not self._takes_null(properties[name]):
                continue
            fitted[name] = self.fit(properties[name], item, _join(path, name), problems)
        return fitted

    def _list(self, schema: Schema, value: list[Any], path: str, problems: list[str]) -> list[Any]:
        first = schema.get("prefixItems", [])
        rest = schema.get("items", True)
        return [
            self.fit(first[at] if at < len(first) else rest, item, _join(path, str(at)), problems)
            for at, item in enumerate(value)
        ]

    def _one_of(self, choices: Sequence[Any], value: Any, path: str, problems: list[str], *, only_one: bool) -> Any:
        complaints: list[list[str]] = []
        fitting: list[Any] = []
        for choice in choices:
            mine: list[str] = []
            fitted = self.fit(choice, value, path, mine)
            if mine:
                complaints.append(mine)
            else:
                fitting.append(fitted)
        as_it_is = [fitted for fitted in fitting if _same(fitted, value)]
        if only_one and len(as_it_is) > 1:
            problems.append(f"{path or 'root'}: must match exactly one of several schemas, and matches {len(as_it_is)}")
        if fitting:
            return (as_it_is or fitting)[0]
        if complaints:  # the nearest is most often the one that is found fault with deep inside
            nearest: list[str] = max(complaints, key=_depth)
            problems += nearest
        return value

    def _takes_null(self, schema: Any) -> bool:
        """Whether it says something of null, and nothing against it."""
        if not isinstance(schema, dict) or SAYING.isdisjoint(schema):
            return False
        problems: list[str] = []
        self.fit(schema, None, "", problems)
        return not problems


def _depth(problems: list[str]) -> int:
    return problems[0].partition(":")[0].count("/")


# What a schema asks for.


def unknown(schema: Any) -> list[str]:
    """Where a schema says what is not checked here, or what cannot be: one line each, with the place in it."""
    return list(_unknown(schema, schema, "", 0))


def _unknown(whole: Any, schema: Any, place: str, depth: int) -> Iterator[str]:
    here = place or "/"
    if isinstance(schema, bool):
        return
    if depth > DEEPEST_SCHEMA:
        yield f"{here[:80]}...: nested too deeply"
        return
    if not isinstance(schema, dict):
        yield f"{here}: a schema is an object, true or false"
        return
    for word, said in schema.items():
        if word not in CHECKED and word not in TOLD:
            yield f"{place}/{word}: this keyword is not supported"
        elif (wrong := _wrong(whole, word, said)) is not None:
            yield f"{place}/{word}: {wrong}"
        else:
            for step, part in _parts(word, said):
                yield from _unknown(whole, part, f"{place}/{word}{step}", depth + 1)


def _parts(word: str, said: Any) -> Iterator[tuple[str, Any]]:
    """The schemas inside a keyword, and how to get there."""
    if word in ("properties", "$defs", "definitions"):
        yield from ((f"/{name}", part) for name, part in said.items())
    elif word in (*CHOICES, "prefixItems"):
        yield from ((f"/{at}", part) for at, part in enumerate(said))
    elif word in ("items", "additionalProperties"):
        yield "", said


def _wrong(whole: Any, word: str, said: Any) -> str | None:
    """What makes a keyword impossible to obey."""
    if word in ("properties", "$defs", "definitions") and not isinstance(said, dict):
        return "must be an object of schemas"
    if word in (*CHOICES, "prefixItems", "enum", "required") and not isinstance(said, list):
        return "must be a list"
    if word in CHOICES and not said:
        return "must not be empty"
    if word == "type":
        names = said if isinstance(said, list) else [said]
        strange = [name for name in names if not isinstance(name, str) or name not in {*TYPES, "number", "integer"}]
        return f"there is no type {strange[0]!r}" if strange else None
    if word == "$ref":
        if not isinstance(said, str) or not said.startswith("#"):
            return "only references into the same schema (#/...) are supported"
        return None if referred(whole, said, None) is not None else f"there is nothing at {said}"
    if word == "pattern":
        return None if _compiled(said) is not None else f"this regular expression cannot be read: {said!r}"
    if word in BOUNDS and (isinstance(said, bool) or not isinstance(said, int | float)):
        return "must be a number"
    return None


def referred(whole: Any, reference: Any, otherwise: Any = True) -> Any:
    """What `#/$defs/Name` stands for."""
    found = whole
    if not isinstance(reference, str) or not reference.startswith("#"):
        return otherwise
    for step in reference[1:].split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and step in found:
            found = found[step]
        elif isinstance(found, list) and step.isdecimal() and int(step) < len(found):
            found = found[int(step)]
        else:
            return otherwise
    return found


# Single values.


def _unequal(schema: Schema, value: Any) -> Iterator[str]:
    if "enum" in schema and not any(_same(value, item) for item in schema["enum"]):
        yield f"must be one of {', '.join(str(item) for item in schema['enum'])}"
    if "const" in schema and not _same(value, schema["const"]):
        yield f"must be {json.dumps(schema['const'], ensure_ascii=False)}"


def _out_of_bounds(schema: Schema, value: Any) -> Iterator[str]:
    if isinstance(value, bool):
        return
    if isinstance(value, int | float):
        yield from (
            f"must be {sign} {limit}"
            for word, (sign, ok) in NUMBERS.items()
            if (limit := _limit(schema, word)) is not None and not ok(value, limit)
        )
        if (step := _limit(schema, "multipleOf")) and abs(value / step - round(value / step)) > 1e-9:
            yield f"must be a multiple of {step}"
        return
    for kind, fewest, most, what in LENGTHS:
        if isinstance(value, kind):
            if (least := _limit(schema, fewest)) is not None and len(value) < least:
                yield f"must NOT have fewer than {least} {what}"
            if (limit := _limit(schema, most)) is not None and len(value) > limit:
                yield f"must NOT have more than {limit} {what}"
    if isinstance(value, str) and (pattern := _compiled(schema.get("pattern"))) and not pattern.search(value):
        yield f'must match pattern "{schema["pattern"]}"'
    if isinstance(value, list) and schema.get("uniqueItems") is True and _repeats(value):
        yield "must NOT have duplicate items"


def _limit(schema: Schema, word: str) -> int | float | None:
    said = schema.get(word)
    return said if isinstance(said, int | float) and not isinstance(said, bool) else None


def _repeats(items: list[Any]) -> bool:
    return any(_same(one, other) for at, one in enumerate(items) for other in items[:at])


def _compiled(pattern: Any) -> re.Pattern[str] | None:
    try:
        return re.compile(pattern)
    except (re.error, TypeError, RecursionError):
        return None


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
            return parse(value.encode("utf-8", "surrogatepass"), MAX_RECEIVED_NESTING)
        except BadRecord:
            return value
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


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON: true is not 1, though 1.0 is."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(item, other[name]) for name, item in one.items())
    return bool(one == other)


def _is(kind: Any, value: Any) -> bool:
    if isinstance(kind, list):
        return any(_is(one, value) for one in kind)
    if kind in ("number", "integer"):
        return isinstance(value, int if kind == "integer" else (int, float)) and not isinstance(value, bool)
    return isinstance(value, TYPES[kind]) if kind in TYPES else True


def _join(path: str, name: str) -> str:
    short = name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}..."
    return f"{path}/{short}".lstrip("/")
