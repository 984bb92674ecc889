"""Human-readable output on stdout and stderr: the only module that prints.

Names of files, models and sessions, and texts of servers and extensions, may contain escape sequences, invisible
characters and line feeds. All of it goes through core/text/terminal_text.py, whether or not the stream is a terminal,
because logs are later read at one. `say` and `complain` print tau's own messages, `stream` prints the text of a
model, `emit` prints results that another program may read.
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

from tau.core.checks.secrets import mask_secrets
from tau.core.text import terminal_text

logger = logging.getLogger(__name__)

LOG_LINE = "tau: %(levelname)s: %(message)s"


def say(text: str = "", *, end: str = "\n") -> None:
    """Print a message on stdout. Lines after the first are indented, so print a table line by line."""
    _write(sys.stdout, terminal_text.escape_message(text) + end)


def say_marked(mark: str, text: str, colour: int) -> None:
    """Print a message on stdout behind a mark, which has an ANSI colour if stdout is a terminal that shows colours."""
    plain = (
        sys.stdout is None or not sys.stdout.isatty() or os.environ.get("TERM") == "dumb" or "NO_COLOR" in os.environ
    )
    painted = mark if plain else f"\x1b[{colour}m{mark}\x1b[0m"
    _write(sys.stdout, f"  {painted} {terminal_text.escape_message(text)}\n")


def complain(text: str, *, end: str = "\n") -> None:
    """Print a message on stderr. A closed or broken stderr is ignored: there is no better place to report it."""
    with suppress(OSError):
        _write(sys.stderr, terminal_text.escape_message(text) + end)


def wipe() -> None:
    """Clear the current line of the terminal at stderr, for the next output."""
    with suppress(OSError):
        _write(sys.stderr, "\r\x1b[K")


def stream(text: str) -> None:
    """Print a chunk of model output that went through a `Cleaner`, or a text that is already escaped."""
    _write(sys.stdout, terminal_text.strip_controls(text))


def emit(text: str) -> None:
    """Print a result on stdout: escaped at a terminal, else byte for byte, since it may be a path for a program."""
    if sys.stdout is None or sys.stdout.isatty():
        _write(sys.stdout, terminal_text.escape_message(text) + "\n")
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(os.fsencode(text) + b"\n")
    sys.stdout.buffer.flush()


def _write(to: TextIO | None, text: str) -> None:
    if to is None:  # the process was started without this stream
        return
    try:
        to.write(text)
    except UnicodeEncodeError:  # a locale without UTF-8
        code = to.encoding
        to.write(text.encode(code, "backslashreplace").decode(code))
    to.flush()


class LogFormatter(logging.Formatter):
    """Formats log lines for stderr, including tracebacks: masks keys and escapes terminal control sequences."""

    def __init__(self, known: Callable[[], Iterable[str]] = tuple, form: str = LOG_LINE) -> None:
        super().__init__(form)
        self._known = known

    def format(self, record: logging.LogRecord) -> str:
        return terminal_text.escape_message(mask_secrets(super().format(record), self._known()))


class LogStream(logging.StreamHandler[TextIO]):
    """Writes log lines. One that cannot be written, such as on a full disk, is lost."""

    def handleError(self, record: logging.LogRecord) -> None:
        """logging would print a traceback here, with the values of the line, which LogFormatter has not seen."""


def log_to_stderr(level: int = logging.WARNING) -> None:
    """Write log lines and uncaught exceptions to stderr, formatted by LogFormatter."""
    logging.basicConfig(handlers=[LogStream(sys.stderr)], level=level)
    hide_in_log(tuple)
    threading.excepthook = _uncaught_in_thread


def hide_in_log(known: Callable[[], Iterable[str]]) -> None:
    """From now on, mask these secrets in log lines."""
    for handler in logging.getLogger().handlers:
        handler.setFormatter(LogFormatter(known))


def uncaught(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
    """Log an uncaught exception. For sys.excepthook: a traceback contains names, which must be escaped."""
    if not logging.getLogger().handlers:
        log_to_stderr()
    logger.critical("uncaught exception", exc_info=(kind, error, at))


def _uncaught_in_thread(found: threading.ExceptHookArgs) -> None:
    if found.exc_value is not None and not issubclass(found.exc_type, SystemExit):
        uncaught(found.exc_type, found.exc_value, found.exc_traceback)
