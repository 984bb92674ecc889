"""Descriptions of a record's fields, in words that need no knowledge of Python.

Everything comes from the declaration: wire names, types from the annotations, presence from the default. For a record
that the client writes, optional fields may have a default; a record that tau writes contains all required fields.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import pairwise
from operator import or_
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from tau.records.base import UNSET, Record, UnsetType, encode

WrittenBy = Literal["by the client", "by tau"]
# Returns the link to the section of a record or named union; None for everything else.
Link = Callable[[Any], str | None]

REQUIRED = object()
SIMPLE = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    Any: "any",
    NoneType: "null",
}
PLURALS = {name: f"{name}s" for name in ("string", "integer", "number", "boolean")}


class Field(NamedTuple):
    name: str
    kind: str
    presence: str


def fields(record: type[Record], written: WrittenBy, link: Link) -> list[Field]:
    """Describe the fields in the order of the wire, the tag first."""
    config = record.__struct_config__
    described = []
    if config.tag is not None:
        described.append(Field(str(config.tag_field), code(config.tag), _presence(str, REQUIRED, written)))
    hints = get_type_hints(record)
    for name, wire_name, default in zip(
        record.__struct_fields__, record.__struct_encode_fields__, defaults(record), strict=True
    ):
        described.append(Field(wire_name, in_words(hints[name], link), _presence(hints[name], default, written)))
    return described


def defaults(record: type[Record]) -> list[Any]:
    """Return the default of each field; REQUIRED if it has none."""
    given = [value.factory() if hasattr(value, "factory") else value for value in record.__struct_defaults__]
    return [REQUIRED] * (len(record.__struct_fields__) - len(given)) + given


def _presence(kind: Any, default: Any, written: WrittenBy) -> str:
    if written == "by tau":
        return "optional" if UnsetType in _choices(kind) or default is UNSET else "required"
    if default is REQUIRED:
        return "required"
    return (
        "optional" if default in (None, UNSET) or isinstance(default, Record) else f"optional, default {code(default)}"
    )


def in_words(kind: Any, link: Link) -> str:
    """Describe an annotation."""
    return either(_alternatives(kind, link))


def _alternatives(kind: Any, link: Link) -> list[str]:
    if (words := link(kind) or SIMPLE.get(kind)) is not None:
        return [words]
    inside = get_args(kind)
    origin = get_origin(kind)
    if origin is Literal:
        return [code(value) for value in inside]
    if origin is list:
        return ["array" if inside[0] is Any else f"array of {_plural(in_words(inside[0], link))}"]
    if origin is dict:
        return ["object" if inside[1] is Any else f"object with {in_words(inside[1], link)} values"]
    if origin in (Union, UnionType):
        return _of_union(inside, link)
    raise TypeError(f"docgen/words.py has no words for {kind!r}")


def _of_union(kinds: Sequence[Any], link: Link) -> list[str]:
    """Absence is described by the presence, not by the type. The remaining types may be a named union."""
    rest = [kind for kind in kinds if kind not in (UnsetType, NoneType)]
    named = link(reduce(or_, rest))
    words = [named] if named else [word for kind in rest for word in _alternatives(kind, link)]
    return [*words, "null"] if NoneType in kinds else words


def either(words: Sequence[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def code(value: Any) -> str:
    return f"`{encode(value).decode()}`"


def sentences(record: type[Record]) -> str:
    """Return the record's own docstring with wire names for fields. Inherited docstrings are ignored."""
    text = inspect.cleandoc(record.__dict__.get("__doc__") or "")
    names = dict(zip(record.__struct_fields__, record.__struct_encode_fields__, strict=True))
    return re.sub(r"`(\w+)`", lambda match: f"`{names.get(match[1], match[1])}`", text)


def meanings(record: type[Any]) -> dict[str, str]:
    """Return the docstring of each field that has one."""
    (declared,) = ast.parse(inspect.getsource(record)).body
    assert isinstance(declared, ast.ClassDef)
    return {
        field.target.id: " ".join(inspect.cleandoc(doc.value.value).split())
        for field, doc in pairwise(declared.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant) and isinstance(doc.value.value, str)
    }


def _choices(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _plural(words: str) -> str:
    return PLURALS.get(words, words)
