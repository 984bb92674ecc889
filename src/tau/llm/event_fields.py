"""Helpers of all readers: events as JSON, and fields of the expected type.

A server may send anything. Fields that an answer does not need may be missing, null or of another type: `as_…`
returns a neutral value for them. A needed field that is missing is a ModelError that names it and quotes the beginning
of the event, never another exception and never a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from tau.errors import ModelError
from tau.records.base import MAX_RECEIVED_NESTING, BadRecord, encode, parse

R = TypeVar("R")
T = TypeVar("T")

# Exceptions from accessing an event of the wrong shape.
MALFORMED = (KeyError, TypeError, IndexError, AttributeError, ValueError)
END_MARK = "[DONE]"  # ends a stream of OpenAI; proxies send it after the events of other APIs too


class BadField(ValueError):
    """A needed field is missing or has the wrong type; the text says which."""


def parse_event(data: str) -> dict[str, Any]:
    """Parse an event as a JSON object. An event without data, which keeps a connection open, is an empty object."""
    if not data or data.isspace():
        return {}
    try:
        value = parse(data.encode("utf-8", "surrogatepass"), MAX_RECEIVED_NESTING)
    except BadRecord as error:
        raise ModelError(
            f"The model server sent an event that is not JSON ({error}): {data[:200]}", transient=True
        ) from None
    if not isinstance(value, dict):
        raise ModelError(f"The model server sent an event without a type: {data[:200]}", transient=True)
    return value


def dispatch(
    reader: R, handlers: Mapping[str, Callable[[R, dict[str, Any]], T]], name: str, data: str
) -> T | tuple[()]:
    """Call the handler for an event's type; unknown types are ignored."""
    value = parse_event(data)
    kind = value.get("type") or name
    if not isinstance(kind, str):
        raise ModelError(f"The model server sent an event without a type: {data[:200]}", transient=True)
    handler = handlers.get(kind)
    try:
        return handler(reader, value) if handler else ()
    except MALFORMED as error:
        raise malformed(kind, data, error) from None


def malformed(kind: str, data: str, error: Exception | None = None) -> ModelError:
    """The error for an event that lacks something; `error` says what, if it is a BadField."""
    what = f" ({error})" if isinstance(error, BadField) else ""
    return ModelError(f"The model server sent a malformed {kind} event{what}: {data[:200]}", transient=True)


def server_error(error: Any) -> ModelError:
    """An error event of the server, in its own words; these decide about a retry."""
    return ModelError(encode(error).decode())


def require_text(value: Any, name: str) -> str:
    """Return a value that must be a string."""
    if not isinstance(value, str):
        raise BadField(f"{name} is missing" if value is None else f"{name} is not a string")
    return value


def require_object(value: Any, name: str) -> dict[str, Any]:
    """Return a value that must be an object."""
    if not isinstance(value, dict):
        raise BadField(f"{name} is missing" if value is None else f"{name} is not an object")
    return value


def optional_text(value: Any, name: str) -> str:
    """Return a string that may be missing, but must not be anything else: a part of the answer."""
    return "" if value is None else require_text(value, name)


def as_text(value: Any) -> str:
    """A string that the answer does not need; anything else counts as empty."""
    return value if isinstance(value, str) else ""


def as_id(value: Any) -> str:
    """An id: some servers send a number."""
    return str(value) if type(value) is int else as_text(value)


def as_object(value: Any) -> dict[str, Any]:
    """An object that the answer does not need; anything else counts as empty."""
    return value if isinstance(value, dict) else {}


def as_objects(value: Any) -> Sequence[dict[str, Any]]:
    """The objects of a list; some servers send a single object without the list."""
    if isinstance(value, dict):
        return [value]
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else ()


def as_index(value: Any) -> int | None:
    """The number of a block or a call; None if it is missing."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    return value if type(value) is int else None


def token_count(value: Any) -> int:
    """A number of tokens; anything else counts as 0, since an answer must not fail because of its usage."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
        value = int(value)
    if isinstance(value, float) and value.is_integer() and value < 1e15:
        value = int(value)
    return value if type(value) is int and value > 0 else 0


def prompt_counts(prompt: int, read: int, written: int = 0) -> tuple[int, int, int]:
    """Fresh, read and written tokens of a prompt that includes the cached ones. Some servers (Azure) count more tokens
    as cached than the prompt has.
    """
    read = min(read, prompt)
    written = min(written, prompt - read)
    return prompt - read - written, read, written
