"""Errors, named after their reader.

    TauError
      CommandError      the client: a response with success false
        SessionInUse
      ToolError         the model: a tool result with isError true
      ModelError        the run: an assistant message with stopReason error
      Aborted           the run: work was stopped by its AbortSignal
      ExtensionFailure  the client: an extension_error event
      UsageError        the person at the terminal: stderr and exit code 2
        SessionFolderRefused  also the client
        SessionFolderGone     also the client; exit code 1
      RunError          the Python program: raised by Result.raise_for_status
        BudgetReached, AnswerTruncated, RunAborted

str(error) is the complete sentence that its reader sees. Any other exception is a bug in tau and looks like one.
"""

from __future__ import annotations

from typing import Any


class TauError(Exception):
    """Base class of all errors with a message for a reader."""


class CommandError(TauError):
    """The client asked for something that is not possible, or not now."""


class SessionInUse(CommandError):
    """Another process has a session open. `where` says which: "in use by process 7"."""

    def __init__(self, session: str, where: str, remedy: str) -> None:
        super().__init__(f"Session {session} is {where}{remedy}")
        self.where = where


class ToolError(TauError):
    """A tool failed; the model decides how to continue."""


class ModelError(TauError):
    """A model call failed.

    `transient` says whether a retry may help; None means unknown, so that the text must be classified.
    `retry_after_ms` is the delay that the server asked for.
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
    """Work was stopped by its AbortSignal. This is neither a failure nor a cancellation."""

    def __str__(self) -> str:
        return "Operation aborted"


class ExtensionFailure(TauError):
    """An extension raised an error, timed out or died; the caller continues without it."""


class NodeUnsupported(ExtensionFailure):
    """The program that would run TypeScript extensions cannot: none of them is loaded."""


class UsageError(TauError):
    """The command line, a file that it names, or an argument of the library is invalid."""


class SessionFolderRefused(UsageError, CommandError):
    """A session may not run in its folder: a host, a sandbox or permission rules were started for another."""


class SessionFolderGone(UsageError, CommandError):
    """The folder of a session does not exist. The first three lines are those of pi, which clients know."""

    def __init__(self, message: str, file: str) -> None:
        super().__init__(message)
        self.file = file


class RunError(TauError):
    """A run did not end as it should: it failed, or one of the subclasses. `result` is the partial `tau.Result`."""

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


class BudgetReached(RunError):
    """A limit of the budget ended the run, or the model was stuck; `result.exceeded` is the limit."""


class AnswerTruncated(RunError):
    """The last answer was cut off at the length limit of the model."""


class RunAborted(RunError):
    """The run was aborted."""


def shortened(text: str, limit: int = 4096) -> str:
    """Truncate foreign text to `limit` bytes of UTF-8."""
    data = text.encode("utf-8", "replace")
    return text if len(data) <= limit else data[:limit].decode("utf-8", "ignore")


def error_text(text: str, advice: str) -> str:
    """The words of a server, and on a line of its own what they mean here; together not longer than `shortened`."""
    return f"{shortened(text, 4095 - len(advice))}\n{advice}" if advice else text
