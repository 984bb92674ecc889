"""A slash command of the terminal: a row of the table in commands.py."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from tau.records.base import Value
from tau.runtime.app.handle import SessionHandle
from tau.tui.argument_value import ArgumentValue
from tau.tui.surface import Surface

Offered = Sequence[str | ArgumentValue]


class Command(Value):
    name: str
    about: str
    run: Callable[[Surface, str], Coroutine[Any, Any, None]]
    hint: str = ""  # its arguments
    values: Callable[[SessionHandle], Offered | Awaitable[Offered]] | None = None  # completions of the argument
