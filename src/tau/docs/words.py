"""A record's fields in plain words, for people who do not read Python.

Everything is taken from the declaration: names as they stand on the wire, types
from the annotations, and whether a field must be there from its default. What a
client writes and what it reads are told differently: the one has defaults, the
other is there or may be absent.
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

Written = Literal["by the client", "by tau"]
# What is said for a record, or for a union that has a name; None for everything else.
Link = Callable[[Any], str | None]

REQUIRED = object()
SIMPLE = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    Any: "any JSON value",
    NoneType: "null",
}
SEVERAL = {"text": "texts", "whole number": "whole numbers", "any JSON value": "JSON values"}


class Field(NamedTuple):
    name: str
    kind: str
    presence: str


def fields(record: type[Record], written: Written, link: Link) -> list[Field]:
    """As they stand on the wire, the tag first."""
    config = record.__struct_config__
    told = []
    if config.tag is not None:
        told.append(Field(str(config.tag_field), code(config.tag), _presence(str, REQUIRED, written)))
    hints = get_type_hints(record)
    for name, wire_name, default in zip(
        record.__struct_fields__, record.__struct_encode_fields__, defaults(record), strict=True
    ):
        told.append(Field(wire_name, in_words(hints[name], link), _presence(hints[name], default, written)))
    return told


def defaults(record: type[Record]) -> list[Any]:
    """One for each field; REQUIRED where there is none."""
    given = [value.factory() if hasattr(value, "factory") else value for value in record.__struct_defaults__]
    return [REQUIRED] * (len(record.__struct_fields__) - len(given)) + given


def _presence(kind: Any, default: Any, written: Written) -> str:
    if written == "by tau":
        return "may be absent" if UnsetType in _choices(kind) or default is UNSET else "always"
    if default is REQUIRED:
        return "required"
    return "optional" if default in (None, UNSET) or isinstance(default, Record) else f"optional, else {code(default)}"


def in_words(kind: Any, link: Link) -> str:
    """An annotation as one would say it."""
    return either(_alternatives(kind, link))


def _alternatives(kind: Any, link: Link) -> list[str]:
    if (said := link(kind) or SIMPLE.get(kind)) is not None:
        return [said]
    inside = get_args(kind)
    origin = get_origin(kind)
    if origin is Literal:
        return [code(value) for value in inside]
    if origin is list:
        return [f"list of {_several(in_words(inside[0], link))}"]
    if origin is dict:
        return [f"object of {_several(in_words(inside[1], link))}"]
    if origin in (Union, UnionType):
        return _of_union(inside, link)
    raise TypeError(f"tau/docs/words.py has no words for {kind!r}")


def _of_union(kinds: Sequence[Any], link: Link) -> list[str]:
    """That it may be absent is told by its presence. What is left may be a union with a name."""
    rest = [kind for kind in kinds if kind not in (UnsetType, NoneType)]
    named = link(reduce(or_, rest))
    words = [named] if named else [word for kind in rest for word in _alternatives(kind, link)]
    return [*words, "null"] if NoneType in kinds else words


def either(words: Sequence[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def code(value: Any) -> str:
    return f"`{encode(value).decode()}`"


def sentences(record: type[Record]) -> str:
    """The docstring, with fields named as on the wire. An inherited one is about something else."""
    text = inspect.cleandoc(record.__dict__.get("__doc__") or "")
    names = dict(zip(record.__struct_fields__, record.__struct_encode_fields__, strict=True))
    return re.sub(r"`(\w+)`", lambda found: f"`{names.get(found[1], found[1])}`", text)


def meanings(record: type[Record]) -> dict[str, str]:
    """The text below each field that has one."""
    (declared,) = ast.parse(inspect.getsource(record)).body
    assert isinstance(declared, ast.ClassDef)
    return {
        field.target.id: " ".join(inspect.cleandoc(below.value.value).split())
        for field, below in pairwise(declared.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str)
    }


def _choices(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _several(words: str) -> str:
    return SEVERAL.get(words, words)
