"""`error.type`: the class of a failure, never its message."""

from __future__ import annotations

import asyncio
from typing import Final

from tau.core.models.failures import classify
from tau.errors import Aborted, ModelError
from tau.runtime.telemetry.names import OTHER

# The class of each kind of failure that has another name here.
CLASSES: Final = {"unavailable": "overloaded", "too_large": "overflow", "tool_call": OTHER, "server": OTHER}


def type_of_text(text: str, status: int | None = None) -> str:
    """The class of a failed answer, by its status and the words of its error."""
    kind = classify(text, status).kind
    if kind == "other":
        return "budget" if "budget" in text.lower() else OTHER
    return CLASSES.get(kind, kind)


def type_of(error: BaseException) -> str:
    if isinstance(error, Aborted | asyncio.CancelledError | GeneratorExit):
        return "aborted"
    if isinstance(error, ModelError):
        return type_of_text(str(error), error.status)
    return "timeout" if isinstance(error, TimeoutError) else OTHER
