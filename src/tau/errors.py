"""Errors, named after who reads them.

    TauError
      CommandError      the client: a response with success false
      ToolError         the model: a tool result with isError true
      ModelError        the run: an assistant message with stopReason error
      Aborted           the run: a piece of work was stopped by its switch
      ExtensionFailure  the client: an extension_error event
      UsageError        the person at the terminal: stderr and exit code 2

str(error) is the whole sentence its reader sees. Anything that is not a
TauError is a bug in this program and is allowed to look like one.
"""

from __future__ import annotations


class TauError(Exception):
    """Base of every error that is meant to be read by somebody."""


class CommandError(TauError):
    """The client asked for something that cannot be done, or not now."""


class ToolError(TauError):
    """A tool could not do its work; the model decides what to do next."""


class ModelError(TauError):
    """A model call failed.

    `transient` says whether asking again may help, None that nobody knows and
    the text must be looked at; `retry_after_ms` is how long the server asked
    us to wait before that.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        transient: bool | None = None,
        retry_after_ms: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.transient = transient
        self.retry_after_ms = retry_after_ms


class Aborted(TauError):
    """Work under a switch was stopped by it. Not a failure, and not a cancellation."""

    def __str__(self) -> str:
        return "Operation aborted"


class ExtensionFailure(TauError):
    """An extension raised, was late or died; whoever asked it goes on without it."""


class UsageError(TauError):
    """The command line, or a file it names, is wrong."""


def shortened(text: str, limit: int = 4096) -> str:
    """What others say, cut to what anybody will read."""
    data = text.encode("utf-8", "replace")
    return text if len(data) <= limit else data[:limit].decode("utf-8", "ignore")
