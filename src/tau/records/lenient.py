"""Lenient reading: records from JSON that the strict decoder has refused.

Sessions and messages come from other programs and from other releases. They leave fields out, write null where a field
may be absent, fractions for whole numbers, text for times, values that are newer than this version. What can be
understood of a record is read, and a list item by item. What had to be left out is noted with the record (`left_out`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, cast, get_args, get_origin, get_type_hints

from tau.records.base import (
    DECODING_ERRORS,
    UNSET,
    BadRecord,
    UnsetType,
    convert,
    converter,
    note_left_out,
    parse_text,
)
from tau.records.display import short_repr
from tau.records.entries import CompactionEntry, CustomMessageEntry, Entry, milliseconds
from tau.records.messages import (
    Assistant,
    BashExecution,
    BranchSummary,
    CompactionSummary,
    Custom,
    Image,
    Text,
    ToolCall,
    ToolResult,
)

MAX_NUMBER = 2**53
# What a required field counts as if it is missing, or has a value that no reader knows.
DEFAULTS: dict[type, dict[str, Any]] = {
    Assistant: {"content": [], "api": "", "provider": "", "model": "", "usage": {}, "stopReason": "stop"},
    ToolResult: {"content": [], "toolName": ""},
    BashExecution: {"output": ""},
    Custom: {"customType": "", "display": False},
    BranchSummary: {"fromId": "root"},
    CompactionSummary: {"tokensBefore": 0},
    ToolCall: {"arguments": {}},
    CompactionEntry: {"firstKeptEntryId": "", "tokensBefore": 0},
    CustomMessageEntry: {"customType": "", "display": False},
}
SAID = ("content", "arguments")  # a value of these that cannot be understood is not replaced


class _Context:
    """The record that is being read: the time of its entry, the field that is read now, and what is left out."""

    def __init__(self, moment: Any) -> None:
        self.moment = moment
        self.field = ""
        self.left_out: list[str] = []


Reader = Callable[[Any, _Context], Any]  # raises BadRecord


class _Field(NamedTuple):
    name: str
    wire_name: str
    read: Reader
    takes_null: bool
    is_optional: bool
    empty: Any  # what a required field is without a value: UNSET or None, BadRecord if it must have one


def read_leniently(kind: Any, value: Any, moment: int = 0) -> Any:
    """Read a record of `kind`, which may be a union of records, from parsed JSON. Raises BadRecord.

    `moment` is the time in milliseconds for a message that has none; a message of an entry has that of the entry.
    """
    return _reader(kind)(value, _Context(moment))


def _record(kind: Any, value: Any, moment: Any) -> Any:
    if not isinstance(value, dict):
        raise BadRecord("expected an object")
    if kind is Image and isinstance(source := value.get("source"), dict):  # the form of Anthropic
        value = {"data": source.get("data"), "mimeType": source.get("mediaType", source.get("media_type"))}
    if "timestamp" not in value:
        value = {**value, "timestamp": None}
    context = _Context(moment)
    if issubclass(kind, Entry):
        context.moment = value["timestamp"]
    fields = {}
    for field in _fields(kind):
        given = value.get(field.wire_name, UNSET)
        if given is UNSET and field.is_optional:
            continue
        try:
            if given is UNSET or (given is None and not field.takes_null):
                raise BadRecord("missing")
            context.field = field.wire_name
            fields[field.name] = field.read(given, context)
        except BadRecord as error:
            default = DEFAULTS.get(kind, {}).get(field.wire_name)
            if default is not None and (given in (None, UNSET) or field.wire_name not in SAID):
                fields[field.name] = field.read(default, context)
            elif not field.is_optional:
                if field.empty is BadRecord:
                    raise BadRecord(f"{field.wire_name}: {error}") from None
                fields[field.name] = field.empty
    record = kind(**fields)
    return note_left_out(record, context.left_out) if context.left_out else record


@cache
def _fields(kind: Any) -> list[_Field]:
    hints = get_type_hints(kind)
    required = len(kind.__struct_fields__) - len(kind.__struct_defaults__)
    found = []
    for at, (name, wire_name) in enumerate(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)):
        hint, kinds = hints[name], get_args(hints[name])
        empty = UNSET if UnsetType in kinds else None if NoneType in kinds else BadRecord
        takes_null = NoneType in kinds or hint is Any or wire_name == "timestamp"
        read = _reader(hint) if wire_name != "timestamp" else _time if hint is int else _stamp
        found.append(_Field(name, wire_name, read, takes_null, at >= required, empty))
    return found


@cache
def _reader(hint: Any) -> Reader:
    """The function that reads values of one type."""
    origin, kinds = get_origin(hint), [kind for kind in get_args(hint) if kind is not UnsetType]
    if origin in (Union, UnionType):
        if all(map(_is_record, kinds)) and len(kinds) > 1:
            return _tagged(kinds)
        return _first_of([_reader(kind) for kind in kinds])
    if origin is list:
        return _strict_first(hint, _list_of(_reader(*kinds)))
    if _is_record(hint):
        return _strict_first(hint, lambda value, context: _record(hint, value, context.moment))
    if origin is Literal:
        return lambda value, context: _if(isinstance(value, str) and value in kinds, value, "not a known value")
    if origin is dict and kinds[1] is not Any:
        return lambda value, context: convert(_object(value, context), hint)
    return READERS.get(origin or hint) or (lambda value, context: convert(value, hint))


def _strict_first(hint: Any, read: Reader) -> Reader:
    """Most parts of a record are as they should be: those are converted many times faster."""
    convert_strictly = converter(hint)

    def read_part(value: Any, context: _Context) -> Any:
        try:
            return convert_strictly(value)
        except DECODING_ERRORS:
            return read(value, context)

    return read_part


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and hasattr(kind, "__struct_fields__")


def _if(understood: bool, value: Any, problem: str) -> Any:
    if not understood:
        raise BadRecord(problem)
    return value


def _tagged(kinds: list[Any]) -> Reader:
    tag_field = kinds[0].__struct_config__.tag_field
    by_tag = {kind.__struct_config__.tag: kind for kind in kinds}

    def read(value: Any, context: _Context) -> Any:
        if isinstance(value, str) and Text in kinds:
            return Text(value)
        tag = _if(isinstance(value, dict), value, "expected an object").get(tag_field)
        kind = by_tag.get(tag) if isinstance(tag, str) else None
        if kind is None:
            raise BadRecord(f"its {tag_field} is unknown: {short_repr(tag)}" if tag else f"it has no {tag_field}")
        return _record(kind, value, context.moment)

    return read


def _first_of(readers: list[Reader]) -> Reader:
    def read(value: Any, context: _Context) -> Any:
        for reader in readers[:-1]:
            with suppress(BadRecord):
                return reader(value, context)
        return readers[-1](value, context)

    return read


def _list_of(read: Reader) -> Reader:
    def read_list(value: Any, context: _Context) -> list[Any]:
        items, left_out = [], []
        for at, item in enumerate(
            [value] if isinstance(value, str) else _if(isinstance(value, list), value, "expected a list")
        ):
            try:
                items.append(read(item, context))
            except BadRecord as error:
                left_out.append(f"[{at}]: {error}")
        if left_out and not items:
            raise BadRecord(left_out[0])
        context.left_out += [f"{context.field}{problem}" for problem in left_out]
        return items

    return read_list


def _whole(value: Any, context: _Context) -> int:
    if type(value) is float and abs(value) < MAX_NUMBER:
        return round(value)
    return int(_if(type(value) is int and abs(value) < MAX_NUMBER, value, "expected a whole number"))


def _object(value: Any, context: _Context) -> dict[str, Any]:
    if isinstance(value, str):  # arguments of a tool call, as the API of OpenAI has them
        value = parse_text(value) if value.strip() else {}
    return cast("dict[str, Any]", _if(isinstance(value, dict), value, "expected an object"))


def _time(value: Any, context: _Context) -> int:
    for given in (value, context.moment):  # a message that has no time has that of its entry
        with suppress(BadRecord):
            if found := milliseconds(given) if isinstance(given, str) else _whole(given, context):
                return found
    return 0


def _stamp(value: Any, context: _Context) -> str:
    return value if isinstance(value, str) else ""


READERS: dict[Any, Reader] = {
    Any: lambda value, context: value,
    NoneType: lambda value, context: _if(value is None, None, "expected null"),
    str: lambda value, context: _if(isinstance(value, str), value, "expected a text"),
    bool: lambda value, context: _if(isinstance(value, bool), value, "expected true or false"),
    int: _whole,
    float: lambda value, context: _if(type(value) in (int, float), value, "expected a number"),
    dict: _object,
}
