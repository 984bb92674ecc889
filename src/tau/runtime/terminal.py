"""Text for people, on stdout and stderr: the only module that prints.

Names of files, models and sessions, texts of servers and of extensions may hold
escape sequences, invisible characters and line feeds. Everything goes through
core/text/terminal_text.py here, whether the stream is a terminal or not: logs are read at one
later. `say` and `complain` are for sentences of ours, `stream` for the words of a
model, `emit` for results that another program may read.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import TextIO

from tau.core.checks.secrets import masked
from tau.core.text import terminal_text

logger = logging.getLogger(__name__)

LOG_LINE = "tau: %(levelname)s: %(message)s"


def say(text: str = "", *, end: str = "\n") -> None:
    """A message on stdout. Lines after the first are indented, so a table is said line by line."""
    _write(sys.stdout, terminal_text.message(text) + end)


def complain(text: str, *, end: str = "\n") -> None:
    """A message on stderr. A stderr that is closed or broken changes nothing: there is no better place to say so."""
    with suppress(OSError):
        _write(sys.stderr, terminal_text.message(text) + end)


def wipe() -> None:
    """Clear the line of the terminal that stderr is, for what follows."""
    with suppress(OSError):
        _write(sys.stderr, "\r\x1b[K")


def stream(text: str) -> None:
    """Words of a model, a piece at a time, after a `Cleaner`; or a text that is spelled out already."""
    _write(sys.stdout, terminal_text.answer(text))


def emit(text: str) -> None:
    """A result on stdout: spelled out at a terminal, otherwise byte for byte, since it may be a path for a program."""
    if sys.stdout is None or sys.stdout.isatty():
        _write(sys.stdout, terminal_text.message(text) + "\n")
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(os.fsencode(text) + b"\n")
    sys.stdout.buffer.flush()


def _write(to: TextIO | None, text: str) -> None:
    if to is None:  # the process was started without it
        return
    try:
        to.write(text)
    except UnicodeEncodeError:  # a locale without UTF-8
        code = to.encoding
        to.write(text.encode(code, "backslashreplace").decode(code))
    to.flush()


class LogFormatter(logging.Formatter):
    """Log lines for stderr, tracebacks included: without keys, and without what would steer a terminal."""

    def __init__(self, known: Callable[[], Iterable[str]] = tuple, form: str = LOG_LINE) -> None:
        super().__init__(form)
        self._known = known

    def format(self, record: logging.LogRecord) -> str:
        return terminal_text.message(masked(super().format(record), self._known()))


def log_to_stderr(level: int = logging.WARNING) -> None:
    """Write log lines, and exceptions that nothing catches, to stderr by way of a LogFormatter."""
    logging.basicConfig(stream=sys.stderr, level=level)
    hide_in_log(tuple)
    threading.excepthook = _uncaught_in_thread


def hide_in_log(known: Callable[[], Iterable[str]]) -> None:
    """From now on, mask these secrets in log lines."""
    for handler in logging.getLogger().handlers:
        handler.setFormatter(LogFormatter(known))


def uncaught(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
    """For sys.excepthook: the traceback has names in it."""
    if not logging.getLogger().handlers:
        log_to_stderr()
    logger.critical("an error that nothing caught", exc_info=(kind, error, at))


def _uncaught_in_thread(found: threading.ExceptHookArgs) -> None:
    if found.exc_value is not None and not issubclass(found.exc_type, SystemExit):
        uncaught(found.exc_type, found.exc_value, found.exc_traceback)
