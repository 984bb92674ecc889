"""`error.type`: the class of a failure, never its message."""

from __future__ import annotations

import asyncio
from typing import Final

from tau.core.models.failures import is_overflow_text
from tau.errors import Aborted, ModelError
from tau.runtime.telemetry.names import OTHER

BY_STATUS: Final = {401: "auth", 403: "auth", 407: "auth", 408: "timeout", 413: "overflow", 429: "rate_limit"}
OVERLOADED: Final = (503, 529)
BY_WORDS: Final = (  # the first that matches
    ("overloaded", ("overload", "529", "503 ")),
    ("rate_limit", ("rate limit", "rate_limit", "too many requests", "429")),
    ("auth", ("401", "403", "api key", "unauthorized", "authentication")),
    ("timeout", ("timed out", "timeout", "no answer within")),
    ("network", ("cannot connect", "connection", "network", "dns", "closed the stream", "the stream ended", "tls")),
    ("budget", ("budget",)),
)


def type_of_text(text: str, status: int | None = None) -> str:
    """The class of a failed answer, by its status and the words of its error."""
    if status in OVERLOADED:
        return "overloaded"
    if status in BY_STATUS:
        return BY_STATUS[status]
    lowered = text.lower()
    if is_overflow_text(text):
        return "overflow"
    return next((kind for kind, words in BY_WORDS if any(word in lowered for word in words)), OTHER)


def type_of(error: BaseException) -> str:
    if isinstance(error, Aborted | asyncio.CancelledError | GeneratorExit):
        return "aborted"
    if isinstance(error, ModelError):
        return type_of_text(str(error), error.status)
    return "timeout" if isinstance(error, TimeoutError) else OTHER
