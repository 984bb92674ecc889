"""Derives the JSON Schema of a tool from the signature and docstring of a Python function.

    def weather(city: str, days: Annotated[int, "how many, from today"] = 1) -> str:
        '''The weather forecast.

        Args:
            city: its name, with the country if there are several
        '''

The description of a parameter comes from `Annotated`, from the section `Args:`, or from `:param city:`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from tau.errors import ToolError
from tau.records.base import BadRecord, convert, schemas

_BY_KEYWORD = (
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.KEYWORD_ONLY,
    inspect.Parameter.VAR_KEYWORD,
)
_SECTION = re.compile(r"^(?:Args|Arguments|Parameters|Params):[ \t]*\n((?:[ \t]+.*(?:\n|$)|[ \t]*\n)+)", re.MULTILINE)
_ENTRY = re.compile(r"^(\*{0,2}\w+)[ \t]*(?:\([^)]*\))?:[ \t]*(.*)$")
_FIELD = re.compile(r"^:param (?:[^:\n]* )?(\w+):[ \t]*(.*(?:\n[ \t]+.*)*)\n?", re.MULTILINE)
_OTHER_FIELD = re.compile(r"^:(?:type|returns?|rtype|raises?)\b[^:\n]*:.*(?:\n[ \t]+.*)*\n?", re.MULTILINE)


class Parameters:
    """The parameters of a function that the model calls: their JSON Schema, and the values to call it with."""

    def __init__(
        self, function: Callable[..., Any], context: str, decorator: str, schema: Mapping[str, Any] | None = None
    ) -> None:
        """`context`: the parameter that the model does not see. `schema` describes the others instead of annotations.

        Raises TypeError with the reason and the remedy if the function cannot be a tool.
        """
        self._every = inspect.signature(function).parameters
        self._context = context
        for parameter in self._every.values():
            if parameter.kind not in _BY_KEYWORD:
                raise TypeError(f"{parameter} cannot be passed by keyword")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError("it yields; return a list")
        self._open_ended = any(item.kind is inspect.Parameter.VAR_KEYWORD for item in self._every.values())
        self._kinds: dict[str, Any] = {}
        self.schema = dict(schema) if schema is not None else self._derived(function, decorator)

    def _derived(self, function: Callable[..., Any], decorator: str) -> dict[str, Any]:
        """Return a schema of the annotations; parameters with defaults are optional."""
        hints = get_type_hints(function, include_extras=True)
        descriptions = parameter_descriptions(function)
        remedy = f"or describe all parameters with {decorator}(parameters=...)"
        required = []
        for name, parameter in self._every.items():
            if name == self._context or parameter.kind is inspect.Parameter.VAR_KEYWORD:
                continue
            if name not in hints:
                raise TypeError(f"parameter {name} has no annotation; annotate it, {remedy}")
            try:
                schemas([hints[name]])
            except TypeError as error:
                raise TypeError(f"parameter {name}: {error}, {remedy}") from None
            self._kinds[name] = hints[name]
            required += [name] if parameter.default is inspect.Parameter.empty else []
        parts, shared = schemas(self._kinds.values())
        for name, part in zip(self._kinds, parts, strict=True):
            part.update({"description": descriptions[name]} if name in descriptions else {})
        schema = {"type": "object", "properties": dict(zip(self._kinds, parts, strict=True)), "required": required}
        return {**schema, "$defs": shared} if shared else schema

    def values(self, arguments: Mapping[str, Any], context: Any) -> dict[str, Any]:
        """Return what to call the function with: arguments of the annotated types, and the context if it wants one.

        Raises ToolError for an argument that its type refuses.
        """
        values: dict[str, Any] = {}
        for name, value in arguments.items():
            try:
                if name in self._kinds:
                    values[name] = convert(value, self._kinds[name])
                elif self._open_ended or name in self._every:
                    values[name] = value
            except BadRecord as error:
                raise ToolError(f"{name}: {error}") from None
        return {**values, self._context: context} if self._context in self._every else values


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


def positional_count(function: Callable[..., Any], most: int) -> int:
    """Return how many arguments a function accepts by position; `most` if any number.

    Raises TypeError or ValueError if the function has no signature.
    """
    kinds = [parameter.kind for parameter in inspect.signature(function).parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return most
    return sum(kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for kind in kinds)
