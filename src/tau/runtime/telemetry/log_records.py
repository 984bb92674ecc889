"""Warnings and errors of tau's own loggers as log records.

The texts of messages are in tau's source; what they are filled with may be a path or a command. So the values are left
out, unless content is captured.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from tau.runtime.telemetry import names

if TYPE_CHECKING:
    from opentelemetry.trace import Span

MAX_LOG_BYTES: Final = 4096
LEFT_OUT: Final = "…"

# The span of the run that a task belongs to. Only for log records: spans get their parents explicitly.
RUN_SPAN: ContextVar[Span | None] = ContextVar("tau_run_span", default=None)


class LogHandler(logging.Handler):
    def __init__(self, sdk: Any, mask: Callable[[str], str], *, with_content: bool) -> None:
        super().__init__(logging.WARNING)
        self._sdk = sdk
        self._mask = mask
        self._with_content = with_content

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "tau.telemetry":
            return
        try:
            text = self._mask(record.getMessage() if self._with_content else without_values(record))
            about = {names.LOGGER: record.name}
            if record.exc_info is not None and record.exc_info[0] is not None:
                about[names.EXCEPTION_TYPE] = record.exc_info[0].__qualname__
            data = text.encode(errors="replace")[:MAX_LOG_BYTES].decode(errors="ignore")
            self._sdk.log(data, record.levelno, RUN_SPAN.get(), about)
        except Exception:  # the program must not learn of it
            logging.getLogger("tau.telemetry").debug("telemetry failed", exc_info=True)


def without_values(record: logging.LogRecord) -> str:
    """The message with numbers, and the names of the classes of errors; all other values are left out."""
    template = str(record.msg)
    if not record.args:
        return template
    if isinstance(record.args, dict):
        return template
    try:
        return template % tuple(map(_shown, record.args))
    except (TypeError, ValueError):
        return template


def _shown(value: object) -> object:
    if isinstance(value, int | float):
        return value
    return type(value).__qualname__ if isinstance(value, BaseException) else LEFT_OUT
