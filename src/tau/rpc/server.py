"""RPC server: one session for one client, on any transport."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from tau.core.agent.draft import Update
from tau.core.checks.exit_codes import ANSWERED
from tau.records.dialogs import UiRequest
from tau.records.events import Event
from tau.rpc.commands import HANDLERS, WITH_REQUEST
from tau.runtime.app.process import SHUTDOWN_TIMEOUT_S, StopRequest, within
from tau.runtime.machine.local import LocalMachine
from tau.runtime.protocol.dispatcher import Dispatcher, HandlerTable
from tau.runtime.protocol.outbox import Outbox
from tau.runtime.protocol.requests import InputLine
from tau.runtime.protocol.startup import Startup
from tau.runtime.protocol.transport import Transport
from tau.runtime.session.session import Session
from tau.wire.dialect import Dialect
from tau.wire.dialects import DEFAULT

LINES_PER_YIELD = 64
COMMAND_TIMEOUT_S = 1.0  # for a slash command of an extension to end after the input has ended and no run is active


def _ignore() -> None:
    return


class Server:
    """`publish` is the client of the session that `serve` takes. Calls `on_closed` when the client disconnects."""

    def __init__(
        self, transport: Transport, dialect: Dialect = DEFAULT, on_closed: Callable[[], None] = _ignore
    ) -> None:
        self._transport = transport
        self._dialect = dialect
        self._outbox = Outbox(transport, on_closed, dialect)
        self.first_response_sent = asyncio.Event()

    def publish(self, event: Event | Update | UiRequest) -> Awaitable[None] | None:
        """Send an event. Await the result, if there is one, before sending the next event."""
        return self._outbox.send(event)

    async def serve(self, session: Session) -> None:
        """Handle lines until the input ends, then wait for everything that was started."""
        table = HandlerTable(HANDLERS, WITH_REQUEST)
        dispatcher = Dispatcher(session, table, self._outbox, self._dialect, self.first_response_sent.set)
        has_extensions = session.extension_lifecycle.has_extensions
        await self._handle_lines(dispatcher, await self._start(session, dispatcher) if has_extensions else deque())
        session.dialogs.close()
        await dispatcher.wait()
        await session.runs.idle()
        while not await session.running_commands.wait(COMMAND_TIMEOUT_S) and session.runs.busy:
            await session.runs.idle()  # a run that the slash command started or waits for
        await session.runs.idle()

    @property
    def busy(self) -> bool:
        """True while there is unwritten output."""
        return self._outbox.busy

    async def drain(self) -> None:
        """Wait until all output is written or the client has disconnected."""
        await self._outbox.drain()

    async def close(self) -> None:
        """Close the transport."""
        await self._outbox.close()

    async def _start(self, session: Session, dispatcher: Dispatcher) -> deque[InputLine | None]:
        """Start the extensions. Returns the lines that were received meanwhile."""

        def abort() -> None:
            session.hooks.abort()
            session.dialogs.cancel()

        startup = Startup(
            self._transport.receive,
            answer_dialog=dispatcher.handle,
            abort=abort,
            end_of_input=session.dialogs.close,
        )
        return await startup.run(session.extension_lifecycle.start())

    async def _handle_lines(self, dispatcher: Dispatcher, lines: deque[InputLine | None]) -> None:
        receive, wait_for_room = self._transport.receive, self._outbox.wait_for_room
        count = 0
        while (line := lines.popleft() if lines else await receive()) is not None:
            if (backpressure := wait_for_room()) is not None:
                await backpressure
            if dispatcher.handle(line):
                await asyncio.sleep(0)  # start the command before handling the next line
            count += 1
            if count % LINES_PER_YIELD == 0:
                await asyncio.sleep(0)


async def serve_until_stopped(server: Server, session: Session, machine: LocalMachine, stop: StopRequest) -> int:
    """Serve the session to the end of the input, or until a request to stop, and close it. Returns the exit code.

    Processes that the session started do not survive this.
    """
    session.request_exit = lambda: stop.ask(ANSWERED)
    try:
        if await stop.unless(server.serve(session)) and await stop.unless(_close_and_drain(session, server)):
            return ANSWERED
        await within(SHUTDOWN_TIMEOUT_S * (1.3 if session.extension_lifecycle.has_extensions else 1), session.close())
        await within(SHUTDOWN_TIMEOUT_S / 2, server.drain())
        return stop.code
    finally:
        machine.kill_all()
        session.extension_lifecycle.kill()


async def _close_and_drain(session: Session, server: Server) -> None:
    """Close the session, which writes and syncs pending entries, and write the remaining output."""
    await session.close()
    await server.drain()
