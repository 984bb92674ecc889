"""Sessions of a host: the line to one, which is opened first if it has to be."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tau.client.addresses import Address
from tau.client.connection import Connection
from tau.client.line import Line, MakeLine, OnEnd, OnLine
from tau.client.remote import Binding, RemoteLine
from tau.client.replies import read
from tau.errors import UsageError
from tau.records.commands import Command
from tau.records.host_commands import HostCommand, OpenSession
from tau.records.host_events import Opened
from tau.wire.dialect import Dialect
from tau.wire.dialects import DEFAULT

OPEN_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Target:
    """A session of a host: the one with this id, or one that is opened with these fields."""

    address: Address
    session: str | None
    open: Mapping[str, Any] | None
    dialect: Dialect = DEFAULT
    abort_at_end: bool = False


def open_command(fields: Mapping[str, Any]) -> OpenSession:
    """The command that opens a session. Raises UsageError for a field that it does not have."""
    known = [name for name in OpenSession.__struct_fields__ if name not in ("attach", "key")]
    if unknown := [name for name in fields if name not in known]:
        raise UsageError(f"A session is not opened with {unknown[0]!r}. There are {', '.join(known)}.")
    return OpenSession(**{**fields, "attach": False})


def remote_line(
    address: Address,
    *,
    session: str | None = None,
    open: Mapping[str, Any] | None = None,
    dialect: str = "1.5",
    reconnect: bool = True,
    answers: bool = False,
) -> MakeLine:
    """Return what makes the line to a session. `answers`: a person is there for questions. Raises UsageError."""
    if session is not None and open is not None:
        raise UsageError("Give session= to attach to a session, or open= to open one, but not both.")
    command = None if session is not None else open_command(open or {})
    name = f"{Binding.client} {secrets.token_hex(4)}"  # by which the host knows the lender of a tool when it is back

    def make_line(on_line: OnLine, on_end: OnEnd) -> Line:
        binding = Binding(session=session, dialect=dialect, client=name, answers=answers)
        return SessionLine(address, binding, command, on_line, on_end, reconnect=reconnect)

    return make_line


class SessionLine(RemoteLine):
    """A line to a session that `command` opens when the line starts."""

    def __init__(
        self,
        address: Address,
        binding: Binding,
        command: OpenSession | None,
        on_line: OnLine,
        on_end: OnEnd,
        *,
        reconnect: bool,
    ) -> None:
        super().__init__(address, binding, on_line, on_end, reconnect=reconnect)
        self._command = command

    async def start(self) -> None:
        if self._command is not None:
            self._cursor.session = (await open_session(self._address, self._command)).session
        await super().start()


async def open_session(address: Address, command: OpenSession) -> Opened:
    """Open a session over a connection of its own. Raises AgentGone or CommandError."""
    connection = host_connection(address)
    await connection.line.start()
    connection.open()
    try:
        return read(Opened, await connection.call(as_command(command)), "open_session")
    finally:
        await connection.stop()


def host_connection(address: Address, *, timeout: float | None = OPEN_TIMEOUT_S, reconnect: bool = True) -> Connection:
    """A connection for commands of the host."""

    def make_line(on_line: OnLine, on_end: OnEnd) -> Line:
        return RemoteLine(address, Binding(), on_line, on_end, reconnect=reconnect)

    return Connection(make_line, lambda event: None, settles=True, timeout=timeout)


def as_command(command: HostCommand) -> Command:
    """Commands of a host are sent like those of a session."""
    return command  # type: ignore[return-value]
