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
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}
LIST_TYPES = (list, tuple, set, frozenset, Sequence, MutableSequence, Collection, Iterable)
OBJECT_TYPES = (dict, Mapping, MutableMapping)
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


class Undescribable(TypeError):
    """A parameter that JSON Schema cannot describe. str() is the reason."""

    def sentence(self, name: str, decorator: str) -> str:
        """Return why a function cannot be a tool, and what to do."""
        return (
            f"{name} cannot be a tool: {self}, so the model does not know what to pass. Annotate the parameter with "
            f"a type of JSON, or describe all parameters with {decorator}(parameters=...)."
        )


def check_parameters(function: Callable[..., Any], without: Collection[str] = ("ctx",)) -> None:
    """Check that the model can be told what to pass. Raises Undescribable, which names the parameter."""
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        if name in without or parameter.kind in _ANY_NUMBER:
            continue
        if name not in hints:
            raise Undescribable(f"parameter {name} has no annotation")
        if (hint := _undescribable(hints[name])) is not None:
            shown = hint.__qualname__ if isinstance(hint, type) else hint
            raise Undescribable(f"parameter {name}: {shown} has no JSON Schema")


def _undescribable(hint: Any) -> Any:
    """Return the part of a type that JSON Schema cannot describe; None if there is none."""
    hint = _plain(hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if is_typeddict(hint):
        return _first_undescribable(get_type_hints(hint, include_extras=True).values())
    if origin in (Union, types.UnionType):
        return _first_undescribable(kind for kind in arguments if kind is not types.NoneType)
    if (origin or hint) in LIST_TYPES:
        return _first_undescribable(kind for kind in arguments if kind is not Ellipsis)
    if (origin or hint) in OBJECT_TYPES:
        return _first_undescribable(arguments)
    return None if hint is Any or hint is object or _schema(hint) else hint


def _first_undescribable(hints: Iterable[Any]) -> Any:
    return next((found for hint in hints if (found := _undescribable(hint)) is not None), None)


def _plain(hint: Any) -> Any:
    """Return a type without annotations, and instead of a name for a type the type."""
    while True:
        if get_origin(hint) in (Annotated, Required, NotRequired):
            hint = get_args(hint)[0]
        elif hasattr(hint, "__supertype__"):  # NewType
            hint = hint.__supertype__
        elif type(hint).__name__ == "TypeAliasType":
            hint = hint.__value__
        else:
            return hint


def _schema(hint: Any) -> dict[str, Any]:
    notes = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    description = next((note for note in notes if isinstance(note, str)), None)
    return _schema_of_type(_plain(hint)) | ({} if description is None else {"description": description})


def _schema_of_type(hint: Any) -> dict[str, Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(arguments)}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"enum": [member.value for member in hint]}
    if origin in (Union, types.UnionType):
        kinds = [_schema(kind) for kind in arguments if kind is not types.NoneType]
        return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    if is_typeddict(hint):
        fields = get_type_hints(hint, include_extras=True)
        required = [name for name, kind in fields.items() if _is_required(hint, name, kind)]
        return {"type": "object", "properties": {n: _schema(kind) for n, kind in fields.items()}, "required": required}
    if not isinstance(origin or hint, Hashable):
        return {}
    if (origin or hint) in LIST_TYPES:
        return {"type": "array", "items": _schema(arguments[0]) if arguments else {}}
    if (origin or hint) in OBJECT_TYPES:
        return {"type": "object"}
    return {"type": JSON_TYPES[origin or hint]} if (origin or hint) in JSON_TYPES else {}


def _is_required(kind: Any, name: str, hint: Any) -> bool:
    """True if a TypedDict requires a key. With annotations that are strings, `__required_keys__` is wrong."""
    marker = get_origin(hint)
    return marker is Required or (marker is not NotRequired and name in kind.__required_keys__)


def positional_count(function: Callable[..., Any], most: int) -> int:
    """Return how many arguments a function accepts by position; `most` if any number.

    Raises TypeError or ValueError if the function has no signature.
    """
    kinds = [parameter.kind for parameter in inspect.signature(function).parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return most
    return sum(kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for kind in kinds)
