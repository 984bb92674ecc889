"""Responses: the bytes of one, and where they are sent."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterator
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

from tau.records.base import UNSET, SplicedList, UnsetType, encode, wire_json
from tau.records.replies import Messages, SessionState
from tau.wire.dialect import Dialect

logger = logging.getLogger(__name__)

if TYPE_CHECKING:

    class ResponseSink(Protocol):
        """Takes the lines of responses, in order; an Outbox is one."""

        def send_line(self, line: bytes) -> None: ...

        def send_large(self, pieces: Iterator[bytes], size: int) -> None:
            """Take one line as an iterator of pieces, which satisfies the contract of SplicedList."""


def send_response(
    sink: ResponseSink, dialect: Dialect, id: bytes, name: str, data: Any = UNSET, error: str | UnsetType = UNSET
) -> None:
    """Send a response in the dialect of the client. A long conversation is not copied into one bytes object."""
    if not dialect.responses:
        for line in dialect.substitute(name, data, error):
            sink.send_line(line)
    elif type(data) is Messages and isinstance(data.messages, SplicedList):
        head, _, tail = response(id, name, Messages([]), error).rpartition(b"[]")
        sink.send_large(chain([head], data.messages, [tail]), data.messages.size)
    else:
        sink.send_line(response(id, name, data, error))


def response(id: bytes, name: str, data: Any, error: str | UnsetType = UNSET) -> bytes:
    """Encode a response, with fields in the order of pi: id, type, command, success, data or error."""
    fields = _success(name) if error is UNSET else _failure(name, error)
    if data is UNSET:
        return b"".join((b'{"id":', id, b",", fields, b"}") if id else (b"{", fields, b"}"))
    # The state is a record that stays the same until something changes, and a client may ask for it often.
    body = wire_json(data) if type(data) is SessionState else encode(data)
    if id:
        return b"".join((b'{"id":', id, b",", fields, b',"data":', body, b"}"))
    return b"".join((b"{", fields, b',"data":', body, b"}"))


@cache
def _success(name: str) -> bytes:
    """The part of a response that is the same for all successful commands of a name, which are few."""
    return b'"type":"response","command":%b,"success":true' % encode(name)


def _failure(name: str, error: str) -> bytes:
    return b'"type":"response","command":%b,"success":false,"error":%b' % (encode(name), encode(error))


def unexpected_failure(what: str, error: Exception) -> str:
    """The error message for an exception that no handler foresees, which is logged: a shortage, or a bug."""
    if words := _shortage(error):
        logger.warning("%s failed: %s", what, words)
        return f"{words}. Try again later."
    logger.error("unexpected error in %s", what, exc_info=error)
    return f"Internal error: {type(error).__name__}: {error}"


def _shortage(error: Exception) -> str:
    """The system's words if it had no descriptor or thread, also for loading a module that a command needs; else ""."""
    described = (os.strerror(number) for number in (errno.EMFILE, errno.ENFILE, errno.EAGAIN))
    return next((words for words in described if isinstance(error, OSError | ImportError) and words in str(error)), "")
