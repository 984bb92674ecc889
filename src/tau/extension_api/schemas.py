"""Derives the JSON Schema of a tool from the signature and docstring of a Python function.

    def weather(city: str, days: Annotated[int, "how many, from today"] = 1) -> str:
        '''The weather forecast.

        Args:
            city: its name, with the country if there are several
        '''

The description of a parameter comes from `Annotated`, from the section `Args:`, or from `:param city:`.
"""

from __future__ import annotations

import enum
import inspect
import re
import types
from collections.abc import Callable, Collection
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object"}
LIST_TYPES = (list, tuple, set, frozenset)
_SECTION = re.compile(r"^(?:Args|Arguments|Parameters|Params):[ \t]*\n((?:[ \t]+.*(?:\n|$)|[ \t]*\n)+)", re.MULTILINE)
_ENTRY = re.compile(r"^(\*{0,2}\w+)[ \t]*(?:\([^)]*\))?:[ \t]*(.*)$")
_FIELD = re.compile(r"^:param (?:[^:\n]* )?(\w+):[ \t]*(.*(?:\n[ \t]+.*)*)\n?", re.MULTILINE)
_OTHER_FIELD = re.compile(r"^:(?:type|returns?|rtype|raises?)\b[^:\n]*:.*(?:\n[ \t]+.*)*\n?", re.MULTILINE)


def schema_of(function: Callable[..., Any], without: Collection[str] = ("ctx",)) -> dict[str, Any]:
    """Return a schema of all parameters but those in `without`; parameters with defaults are optional."""
    hints = get_type_hints(function, include_extras=True)
    descriptions = parameter_descriptions(function)
    every = inspect.signature(function).parameters
    parameters = {name: item for name, item in every.items() if name not in without and item.kind not in _ANY_NUMBER}
    return {
        "type": "object",
        "properties": {
            name: {
                **_schema(hints.get(name, Any)),
                **({"description": descriptions[name]} if name in descriptions else {}),
            }
            for name in parameters
        },
        "required": [name for name, item in parameters.items() if item.default is inspect.Parameter.empty],
    }


_ANY_NUMBER = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def description_of(function: Callable[..., Any]) -> str:
    """Return the docstring without its descriptions of parameters."""
    text = _SECTION.sub("", _doc(function))
    return _OTHER_FIELD.sub("", _FIELD.sub("", text)).strip()


def parameter_descriptions(function: Callable[..., Any]) -> dict[str, str]:
    """Return the descriptions of parameters in the docstring, by name."""
    doc = _doc(function)
    found = {name: _one_line(text) for name, text in _FIELD.findall(doc)}
    for section in _SECTION.findall(doc):
        found.update(_entries(inspect.cleandoc("\n" + section).splitlines()))
    return {name: text for name, text in found.items() if text}


def _entries(lines: list[str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    name = ""
    for line in lines:
        if entry := _ENTRY.match(line):
            name = entry[1].lstrip("*")
            found[name] = [entry[2]]
        elif name:
            found[name].append(line)
    return {name: _one_line(" ".join(text)) for name, text in found.items()}


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _doc(function: Callable[..., Any]) -> str:
    return inspect.getdoc(function) or ""


def _schema(hint: Any) -> dict[str, Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        description = next((note for note in arguments[1:] if isinstance(note, str)), None)
        return _schema(arguments[0]) | ({} if description is None else {"description": description})
    if origin is Literal:
        return {"enum": list(arguments)}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"enum": [member.value for member in hint]}
    if origin in (Union, types.UnionType):
        kinds = [_schema(kind) for kind in arguments if kind is not types.NoneType]
        return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    if (origin or hint) in LIST_TYPES:
        return {"type": "array", "items": _schema(arguments[0]) if arguments else {}}
    if is_typeddict(hint):
        fields = get_type_hints(hint, include_extras=True)
        required = [name for name in fields if name in hint.__required_keys__]
        return {"type": "object", "properties": {n: _schema(kind) for n, kind in fields.items()}, "required": required}
    return {"type": JSON_TYPES[origin or hint]} if _hashable(origin or hint) and (origin or hint) in JSON_TYPES else {}


def _hashable(hint: Any) -> bool:
    return getattr(hint, "__hash__", None) is not None


def positional_count(function: Callable[..., Any], most: int) -> int:
    """Return how many arguments a function accepts by position; `most` if any number.

    Raises TypeError or ValueError if the function has no signature.
    """
    kinds = [parameter.kind for parameter in inspect.signature(function).parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return most
    return sum(kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for kind in kinds)
