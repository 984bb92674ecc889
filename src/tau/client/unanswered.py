"""What a client sent to a host and has no response for: which of it has a key, and what is sent again. Pure.

A connection may end between a command and its response. A command with a `key` can be sent again: the host carries it
out once and repeats the response. The host knows the keys of prompts even after it was killed, other keys only as long
as the session stays open; so after the session was opened again, a command that is neither a prompt nor harmless is
not repeated but answered with an error.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Any, NamedTuple

from tau.records.base import BadRecord, Raw, Record, decode, encode, parse

MAX_ANSWERS = 64  # to dialogs, which have no response
# Commands that may be carried out twice, by their beginnings.
HARMLESS = ("get_", "list_", "set_", "abort", "who", "ping", "watch_")
# Commands that must be carried out again for every connection, or that change nothing: they have no key.
WITHOUT_KEY = ("get_", "list_", "who", "ping", "watch_", "set_tools")
MESSAGES = ("prompt", "steer", "follow_up")  # their keys are in the session file
SET_TOOLS = "set_tools"
OFFER_ID = b'"tools of the client"'  # the id of a set_tools that is sent again
UNKNOWN_OUTCOME = "The session was opened again before the host answered: it is not known whether this was carried out."
LAST_FIELD = re.compile(rb',"(seq|asOf)":(\d+)}\Z')
LAST_FIELD_BYTES = 32


class Head(Record):
    """The fields that identify a command or a response. `command` is that of a response."""

    type: Any = None
    id: Raw = Raw()
    command: Any = None
    key: Any = None


class Sent(NamedTuple):
    """A command without a response. `id` is JSON, empty if it has none."""

    command: str
    id: bytes
    line: bytes  # with its LF


class Number(NamedTuple):
    """The number at the end of a line, and the line as on a pipe."""

    value: int
    line: bytes
    is_response: bool


def number_of(line: bytes) -> Number | None:
    """Split off the number that a host has added to an event (`seq`) or to a response (`asOf`)."""
    found = LAST_FIELD.search(line, max(0, len(line) - LAST_FIELD_BYTES))
    return None if found is None else Number(int(found[2]), line[: found.start()] + b"}", found[1] == b"asOf")


def head_of(line: bytes) -> Head:
    """The head of a line; an empty one if it is not a record."""
    try:
        return decode(Head, line, nesting=None)
    except (BadRecord, UnicodeDecodeError):
        return Head()


class Unanswered:
    """`prefix` makes the keys of this client different from those of others."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._count = 0
        self._sent: list[Sent] = []
        self._answers: deque[bytes] = deque(maxlen=MAX_ANSWERS)
        self._offered = b""  # the last set_tools: its tools belong to a connection, so every connection needs it

    def __len__(self) -> int:
        return len(self._sent)

    @property
    def messages(self) -> int:
        """How many of them are prompts or queued messages."""
        return sum(sent.command in MESSAGES for sent in self._sent)

    def clear(self) -> None:
        """Forget all commands."""
        self._sent.clear()

    def add(self, line: bytes) -> bytes:
        """Remember a line, with or without LF, until it is answered. Returns what to send: with a key, if it needs
        one.
        """
        line = line.rstrip(b"\r\n")
        if not line.strip():
            return line + b"\n"
        head = head_of(line)
        if head.type == "extension_ui_response":
            self._answers.append(line + b"\n")
            return line + b"\n"
        command = head.type if isinstance(head.type, str) else "parse"
        if command == SET_TOOLS:
            self._offered = _with_id(line, OFFER_ID) + b"\n"
        elif head.key is None and command != "parse" and not command.startswith(WITHOUT_KEY):
            line = self._with_key(line)
        sent = Sent(command, bytes(head.id), line + b"\n")
        self._sent.append(sent)
        return sent.line

    def _with_key(self, line: bytes) -> bytes:
        body = line.rstrip()
        if not body.endswith(b"}"):
            return line
        self._count += 1
        return b'%b,"key":"%b-%d"}' % (body[:-1], self._prefix.encode(), self._count)

    def resolve(self, response: bytes) -> bool:
        """Forget the command that a response belongs to: the oldest one with its id and name.

        Returns False for a response that answers nothing that the client has sent.
        """
        head = head_of(response)
        if bytes(head.id) == OFFER_ID:
            return False
        for index, sent in enumerate(self._sent):
            if sent.id == bytes(head.id) and sent.command == head.command:
                del self._sent[index]
                break
        return True

    def refuse_longer(self, limit: int) -> list[bytes]:
        """Forget the lines of more than `limit` bytes, which the host does not take. Returns their error responses,
        without LF.
        """

        def fits(line: bytes) -> bool:
            return len(line) <= limit + 1  # with its LF

        answers = [Sent("parse", b"", line) for line in self._answers]
        refused = [sent for sent in (*answers, *self._sent) if not fits(sent.line)]
        self._answers = deque(filter(fits, self._answers), MAX_ANSWERS)
        self._sent = [sent for sent in self._sent if fits(sent.line)]
        self._offered = self._offered if fits(self._offered) else b""
        return [_failure(sent, f"Failed to parse command: the line is longer than {limit} bytes") for sent in refused]

    def to_repeat(self) -> list[bytes]:
        """The lines to send again on a new connection to the same stream, in their order."""
        return [self._offered, *self._answers, *(sent.line for sent in self._sent)]

    def to_repeat_in_new_stream(self) -> tuple[list[bytes], list[bytes]]:
        """The same after the session was opened again: what to send, and error responses for the rest, without LF."""
        again = [sent for sent in self._sent if sent.command in MESSAGES or sent.command.startswith(HARMLESS)]
        lost = [sent for sent in self._sent if sent not in again]
        self._sent[:] = again
        self._answers.clear()
        return [self._offered, *(sent.line for sent in again)], [_failure(sent, UNKNOWN_OUTCOME) for sent in lost]


def _with_id(line: bytes, id: bytes) -> bytes:
    """A command with another id."""
    value = parse(line, nesting=None)
    return encode({**value, "id": Raw(id)}) if isinstance(value, dict) else line


def _failure(sent: Sent, error: str) -> bytes:
    id = b'"id":%b,' % sent.id if sent.id else b""
    return b'{%b"type":"response","command":%b,"success":false,"error":%b}' % (id, encode(sent.command), encode(error))
