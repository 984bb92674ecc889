"""RPC mode that is connected to a session of a host: `pi --mode rpc --connect WHERE`.

A client of pi, on pipes and unmodified, talks to a session that outlives it. The bridge reconnects silently. If the
host cannot continue the stream, it tells what was missed as events of the client's dialect (client/catch_up.py).

    stdin ends               wait for the responses, detach, exit 0; the run goes on, unless it is aborted at the end
    stdout's reader closes   detach, exit 0
    SIGTERM, INT, HUP        detach, exit 143, 130, 129
    the host refuses         exit 1
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from tau.client.catch_up import Heard
from tau.client.events import read_event
from tau.client.opening import SessionLine, Target, open_command
from tau.client.remote import Binding
from tau.client.unanswered import head_of
from tau.core.checks.exit_codes import ANSWERED, FAILED
from tau.records.events import Event
from tau.records.host_events import HOST_CHANNEL_EVENTS, HOST_STREAM_EVENTS, Snapshot
from tau.runtime.app.process import SHUTDOWN_TIMEOUT_S, StopSignal, claim_stdio, run_and_exit, within
from tau.runtime.protocol.outbox import Outbox
from tau.runtime.protocol.pipes import PipeTransport
from tau.runtime.protocol.requests import InputLine
from tau.runtime.protocol.responses import send_response
from tau.runtime.terminal import complain
from tau.wire.lines import LineTooLong

if TYPE_CHECKING:
    from tau.runtime.protocol.transport import Transport

MAX_UNANSWERED = 1024  # commands; then the client waits
OWN_ID = b'"tau-bridge"'
ABORT = b'{"id":"tau-bridge","type":"abort"}\n'
# Events that a client on a pipe does not know.
HOST_ONLY = {str(kind.__struct_config__.tag) for kind in (*HOST_CHANNEL_EVENTS, *HOST_STREAM_EVENTS)}


def serve(target: Target) -> NoReturn:
    """Run the bridge and exit the process with a code of the table above."""
    stdin, stdout = claim_stdio()
    run_and_exit(lambda: _serve(target, stdin, stdout))


async def _serve(target: Target, stdin: int, stdout: int) -> int:
    stop = StopSignal()
    bridge = Bridge(PipeTransport(stdin, stdout), target, lambda: stop.ask(ANSWERED))
    await bridge.start()
    if await stop.unless(bridge.run()):
        return bridge.code
    await within(SHUTDOWN_TIMEOUT_S, bridge.stop())
    return stop.code


class Bridge:
    """One client on a transport, and one session of a host. `on_closed` is called when the client disconnects."""

    def __init__(self, transport: Transport, target: Target, on_closed: Callable[[], None]) -> None:
        dialect = target.dialect
        self._transport, self._target, self._dialect = transport, target, dialect
        self._outbox = Outbox(transport, on_closed, dialect)
        binding = Binding(
            session=target.session,
            dialect=dialect.name,
            flow="wait",
            client="pi --mode rpc",
            responses=dialect.responses,
        )
        command = None if target.open is None else open_command(target.open)
        self._line = SessionLine(target.address, binding, command, self._on_line, self._on_end, reconnect=True)
        self._heard = Heard(snapshots=dialect.snapshots)
        self._started = False  # the first snapshot is known
        self._snapshot: Snapshot | None = None  # what it says is told when all prompts are answered
        self._held: list[bytes] = []  # events after that snapshot
        self._changed = asyncio.Event()
        self._gone = asyncio.Event()
        self._resuming: asyncio.Task[None] | None = None
        self.code = ANSWERED

    async def start(self) -> None:
        """Connect. Raises AgentGone if there is no host, or if it refuses."""
        await self._line.start()

    async def run(self) -> None:
        """Pass lines on until the client's input ends, then wait for the responses and detach."""
        reading = asyncio.ensure_future(self._read())
        gone = asyncio.ensure_future(self._gone.wait())
        await asyncio.wait({reading, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not reading.done():
            reading.cancel()
            self.code = FAILED
            complain(f"Error: {self._line.gone_error()}")
        gone.cancel()
        with suppress(asyncio.CancelledError):
            await reading
        await self.stop()

    async def stop(self) -> None:
        await self._line.stop(gracefully=True)
        await self._outbox.drain()

    # From the client.

    async def _read(self) -> None:
        while (line := await self._transport.receive()) is not None:
            await self._pass_on(line)
        if self._target.abort_at_end:
            await self._line.write(ABORT)
        if self._dialect.responses:
            await self._until(lambda: not self._line.unanswered)

    async def _pass_on(self, line: InputLine) -> None:
        if isinstance(line, LineTooLong):
            error = f"Failed to parse command: the line is longer than {line.size_limit} bytes"
            send_response(self._outbox, self._dialect, b"", "parse", error=error)
            return
        if line and not line.isspace():
            await self._until(lambda: self._line.unanswered < MAX_UNANSWERED)
            await self._line.write(line + b"\n")

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition() and not self._gone.is_set():
            self._changed.clear()
            await self._changed.wait()

    # From the host.

    def _on_line(self, line: bytes | LineTooLong) -> None:
        if isinstance(line, LineTooLong):
            return
        head = head_of(line)
        if head.type == "response":
            if bytes(head.id) != OWN_ID:
                self._send(line)
            self._tell_missed()
            self._changed.set()
        elif head.type == "snapshot":
            self._on_snapshot(line)
        elif head.type in HOST_ONLY:
            self._heard.on_line(line)
        elif self._snapshot is not None:
            self._held.append(line)
        else:
            self._tell(line)

    def _on_snapshot(self, line: bytes) -> None:
        snapshot = read_event("snapshot", line)
        if not isinstance(snapshot, Snapshot):
            return
        if not self._started:
            self._started = True
            self._heard.start(snapshot)
            return
        self._snapshot, self._held = snapshot, []
        self._tell_missed()

    def _tell_missed(self) -> None:
        """Tell what a snapshot added, when the prompts that were sent before it are answered: a client that waits for
        the end of its prompt does not look for it before the response.
        """
        if self._snapshot is None or self._line.unanswered_messages:
            return
        snapshot, self._snapshot = self._snapshot, None
        held, self._held = self._held, []
        self._send_events(self._heard.missed(snapshot))
        for line in self._heard.new_dialogs(snapshot):
            self._send(line)
        for line in held:
            self._tell(line)

    def _tell(self, line: bytes) -> None:
        repairs = self._heard.repairs(line)
        if repairs is not None:
            self._send_events(repairs)
            self._heard.on_line(line)
            self._send(line)

    def _send_events(self, events: Iterable[Event]) -> None:
        for event in events:
            for line in self._dialect.event_lines(event):
                self._send(line)

    def _send(self, line: bytes) -> None:
        self._outbox.send_line(line)
        if not self._outbox.has_room and self._resuming is None:
            self._line.pause()
            self._resuming = asyncio.ensure_future(self._resume())

    async def _resume(self) -> None:
        if (room := self._outbox.wait_for_room()) is not None:
            await room
        self._resuming = None
        self._line.resume()

    def _on_end(self) -> None:
        self._gone.set()
        self._changed.set()
