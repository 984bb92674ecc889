"""Commands that only a host of many sessions has (`tau serve`): hello, and to open, attach to and close sessions.

As in records/commands.py, `id` is not a field, and null in an optional field means the same as leaving it out.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from tau.records.base import Count, Record
from tau.records.budgets import Budget
from tau.records.models import ThinkingLevel
from tau.records.settings import SandboxLevel

PROTOCOL_VERSION = 1
MAX_KEY_LENGTH = 128
MIN_ID_LENGTH = 8  # of the beginning of a session id
Flow = Literal["skip", "wait"]
Scope = Literal["watch", "drive", "admin"]


class HostCommand(Record, tag_field="type"):
    """Base class of the commands of a host."""


class After(Record):
    """A place in the stream of a session: the last number that the client has."""

    stream: str
    seq: Count


class Hello(HostCommand, tag="hello"):
    """The first record of a channel. With `session` the channel is bound to that session and speaks as a pipe does;
    without it, every command names its session.

    `after` continues a stream after that number; `entry` is the last entry that the client has, for a snapshot.
    `numbers`: events have `seq`, responses `asOf`. `flow`: with `wait`, the run waits for this client up to 30 s.
    `pace` is the time in milliseconds between two writes of merged deltas. `answers`: false if perhaps nobody is there
    to answer; permission questions then wait for this client only after it has answered a dialog.
    """

    version: int
    client: str | None = None
    token: str | None = None
    dialect: str | None = None
    session: str | None = None
    after: After | None = None
    entry: str | None = None
    numbers: bool | None = None
    flow: Flow | None = None
    pace: Count | None = None
    answers: bool | None = None


class OpenSession(HostCommand, tag="open_session"):
    """Open a session: a new one, the one of `session` (an id, or a path below the session folders), or a copy of
    `forkOf`, up to before `entryId`. `memory`: it has no file. What is given can narrow what the host allows, never
    widen it.
    """

    cwd: str | None = None
    session: str | None = None
    fork_of: str | None = None
    entry_id: str | None = None
    name: str | None = None
    model: str | None = None
    thinking: ThinkingLevel | None = None
    tools: list[str] | None = None
    budget: Budget | None = None
    permissions: Any = None
    sandbox: SandboxLevel | None = None
    memory: bool | None = None
    attach: bool | None = None
    key: str | None = None


class Attach(HostCommand, tag="attach"):
    """Receive the events of a session; one that is not live is opened. `entry` is the last entry the client has."""

    session: str
    after: After | None = None
    entry: str | None = None


class Detach(HostCommand, tag="detach"):
    """Receive no more events of a session. Its run goes on."""

    session: str


class CloseSession(HostCommand, tag="close_session"):
    """Close a session; its file stays. Refused while it runs, unless `abort` is set, and while others are attached."""

    session: str
    abort: bool | None = None


class ListHostSessions(HostCommand, tag="list_sessions"):
    """List sessions, newest first. `live`: only those that are open in this host. `cursor` continues a list."""

    all: bool | None = None
    live: bool | None = None
    cursor: str | None = None
    limit: Count | None = None


class WatchSessions(HostCommand, tag="watch_sessions"):
    """Receive `session_opened`, `session_closed` and `session_status` events."""

    enabled: bool


class Who(HostCommand, tag="who"):
    """List the clients that are attached to a session."""

    session: str


class Ping(HostCommand, tag="ping"):
    """Answered by a `pong` event that overtakes all waiting output, and by a response in its place."""

    data: Any = None


AnyHostCommand = Hello | OpenSession | Attach | Detach | CloseSession | ListHostSessions | WatchSessions | Who | Ping
HOST_COMMANDS: dict[str, type[HostCommand]] = {
    str(kind.__struct_config__.tag): kind for kind in get_args(AnyHostCommand)
}
