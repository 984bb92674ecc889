"""Helpers of all readers: events as JSON, and fields of the expected type.

A server may send anything. An event that does not match the API is a ModelError that quotes the beginning of the
event, never another exception and never a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tau.errors import ModelError
from tau.records.base import MAX_RECEIVED_NESTING, BadRecord, encode, parse

R = TypeVar("R")
T = TypeVar("T")

# Exceptions from accessing an event of the wrong shape.
MALFORMED = (KeyError, TypeError, IndexError, AttributeError, ValueError)


def event(data: str) -> dict[str, Any]:
    """Parse an event as a JSON object."""
    try:
        value = parse(data.encode("utf-8", "surrogatepass"), MAX_RECEIVED_NESTING)
    except BadRecord as error:
        raise ModelError(
            f"The model server sent an event that is not JSON ({error}): {data[:200]}", transient=True
        ) from None
    if not isinstance(value, dict):
        raise ModelError(f"The model server sent an event without a type: {data[:200]}", transient=True)
    return value


def handled(reader: R, handlers: Mapping[str, Callable[[R, dict[str, Any]], T]], name: str, data: str) -> T | tuple[()]:
    """Call the handler for an event's type; unknown types are ignored."""
    value = event(data)
    kind = value.get("type", name)
    if not isinstance(kind, str):
        raise ModelError(f"The model server sent an event without a type: {data[:200]}", transient=True)
    handler = handlers.get(kind)
    try:
        return handler(reader, value) if handler else ()
    except MALFORMED:
        raise malformed(kind, data) from None


def malformed(kind: str, data: str) -> ModelError:
    return ModelError(f"The model server sent a malformed {kind} event: {data[:200]}", transient=True)


def told(error: Any) -> ModelError:
    """An error event of the server, in its own words; these decide about a retry."""
    return ModelError(encode(error).decode())


def text(value: Any) -> str:
    """Return a value that must be a string."""
    if not isinstance(value, str):
        raise ValueError
    return value


def maybe_text(value: Any) -> str:
    """Return a value that must be a string or missing."""
    return "" if value is None else text(value)


def count(value: Any) -> int:
    """A number of tokens; anything else counts as 0, since an answer must not fail because of its usage."""
    return value if type(value) is int and value > 0 else 0
