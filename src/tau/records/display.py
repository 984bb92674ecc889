"""How records look in a debugger or a log: on one line, short, without fields that are not set, without secrets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

MAX_LENGTH = 240
MAX_STRING = 80
MAX_ITEMS = 4
MAX_DEPTH = 3
SECRET_FIELDS = frozenset({"api_key", "headers", "env"})


def short_repr(value: Any) -> str:
    """Return the representation of a record on one line of at most MAX_LENGTH characters."""
    text = _shown(value, 0)
    return text if len(text) <= MAX_LENGTH else text[: MAX_LENGTH - 1] + "…"


def _shown(value: Any, depth: int) -> str:
    if isinstance(value, str | bytes):
        return repr(value) if len(value) <= MAX_STRING else repr(value[: MAX_STRING - 1])[:-1] + "…" + repr(value)[-1]
    if (names := getattr(type(value), "__struct_fields__", None)) is not None:
        inside = ", ".join(_fields(value, names, depth)) if depth < MAX_DEPTH else "…"
        return f"{type(value).__name__}({inside})"
    if depth > 2 * MAX_DEPTH and isinstance(value, Mapping | list | tuple):
        return "…"
    if isinstance(value, Mapping):
        items = (f"{_shown(key, depth + 1)}: {_shown(item, depth + 1)}" for key, item in value.items())
        return "{" + _joined(items, len(value)) + "}"
    if isinstance(value, list | tuple):
        inside = _joined((_shown(item, depth + 1) for item in value), len(value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    return repr(value)


def _fields(record: Any, names: tuple[str, ...], depth: int) -> Iterator[str]:
    for name in names:
        value = getattr(record, name)
        if name in SECRET_FIELDS and value:
            yield f"{name}=…"
        elif type(value).__name__ != "UnsetType":
            yield f"{name}={_shown(value, depth + 1)}"


def _joined(items: Iterator[str], count: int) -> str:
    shown = [item for item, _ in zip(items, range(MAX_ITEMS), strict=False)]
    return ", ".join([*shown, f"… {count - MAX_ITEMS} more"] if count > MAX_ITEMS else shown)
