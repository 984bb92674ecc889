"""What the readers of all APIs share: events as JSON, and values that must be what they should be.

A server may send anything. What is not what the API says is a ModelError with
the beginning of the event in it, never an exception of ours and never a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tau.errors import ModelError
from tau.records.base import MAX_RECEIVED_NESTING, BadRecord, encode, parse

R = TypeVar("R")
T = TypeVar("T")

# What reading an event of the wrong shape ends in.
MALFORMED = (KeyError, TypeError, IndexError, AttributeError, ValueError)


def event(data: str) -> dict[str, Any]:
    """The object that `data` is."""
    try:
        value = parse(data.encode("utf-8", "surrogatepass"), MAX_RECEIVED_NESTING)
    except BadRecord as error:
        raise ModelError(
            f"The model server sent an event that is no JSON ({error}): {data[:200]}", transient=True
        ) from None
    if not isinstance(value, dict):
        raise ModelError(f"The model server sent an event of no type: {data[:200]}", transient=True)
    return value


def handled(reader: R, handlers: Mapping[str, Callable[[R, dict[str, Any]], T]], name: str, data: str) -> T | tuple[()]:
    """What the handler of an event's type makes of it; what nobody knows is passed over."""
    value = event(data)
    kind = value.get("type", name)
    if not isinstance(kind, str):
        raise ModelError(f"The model server sent an event of no type: {data[:200]}", transient=True)
    handler = handlers.get(kind)
    try:
        return handler(reader, value) if handler else ()
    except MALFORMED:
        raise malformed(kind, data) from None


def malformed(kind: str, data: str) -> ModelError:
    return ModelError(f"The model server sent a malformed {kind} event: {data[:200]}", transient=True)


def told(error: Any) -> ModelError:
    """An error that the server tells in its stream, in its own words; these decide whether to try again."""
    return ModelError(encode(error).decode())


def text(value: Any) -> str:
    """What must be text."""
    if not isinstance(value, str):
        raise ValueError
    return value


def maybe_text(value: Any) -> str:
    """What must be text or missing."""
    return "" if value is None else text(value)


def count(value: Any) -> int:
    """A number of tokens; what is none counts as nothing, since nobody's answer should fail for its bill."""
    return value if type(value) is int and value > 0 else 0
