"""The schema of a tool from the signature of a Python function."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object"}


def schema_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Every parameter but `ctx`, by its annotation; those with defaults may be missing."""
    hints = get_type_hints(function)
    parameters = {name: item for name, item in inspect.signature(function).parameters.items() if name != "ctx"}
    return {
        "type": "object",
        "properties": {name: _schema(hints.get(name, Any)) for name in parameters},
        "required": [name for name, item in parameters.items() if item.default is inspect.Parameter.empty],
    }


def _schema(hint: Any) -> dict[str, Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, types.UnionType):
        kinds = [_schema(kind) for kind in arguments if kind is not types.NoneType]
        return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    if hint is list or origin in (list, tuple, set):
        return {"type": "array", "items": _schema(arguments[0]) if arguments else {}}
    return {"type": PLAIN[origin or hint]} if (origin or hint) in PLAIN else {}
