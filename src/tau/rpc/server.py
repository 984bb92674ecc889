"""RPC server: one session for one client, on any transport."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tau.core.checks.exit_codes import ANSWERED
from tau.rpc.commands import HANDLERS
from tau.runtime.app.handle import SessionHandle
from tau.runtime.app.process import SHUTDOWN_TIMEOUT_S, StopRequest, within
from tau.runtime.extensions.dialogs import ANSWER_TIMEOUT_S
from tau.runtime.protocol.dispatcher import Dispatcher
from tau.runtime.protocol.outbox import Outbox
from tau.runtime.protocol.requests import InputLine
from tau.runtime.protocol.startup import Startup
from tau.wire.dialect import Dialect
from tau.wire.dialects import DEFAULT

if TYPE_CHECKING:
    from tau.runtime.protocol.transport import Transport

LINES_PER_YIELD = 64
COMMAND_TIMEOUT_S = 1.0  # for a slash command of an extension to end after the input has ended and no run is active


def _ignore() -> None:
    return


class CommandBatches:
    """Handles lines in the callback that received them, and writes all their responses at once."""

    def __init__(self, dispatcher: Dispatcher, outbox: Outbox) -> None:
        self._dispatcher = dispatcher
        self._outbox = outbox
        self._is_command_starting = False  # its task has not begun

    def handle(self, lines: Sequence[InputLine]) -> int:
        """Handle the first lines. Returns how many were handled.

        The others wait for `Server._handle_lines`: after a command that has started a task, which must begin before
        the next line is handled; after many lines; and while the client does not read its responses.
        """
        if self._is_command_starting:
            return 0
        outbox, count = self._outbox, 0
        is_holding = outbox.hold()
        if not is_holding and not outbox.has_room:  # an idle one has
            return 0
        try:
            for line in lines:
                count += 1
                if self._dispatcher.handle(line):
                    self._is_command_starting = True
                    asyncio.get_running_loop().call_soon(self._command_started)
                    break
                if count == LINES_PER_YIELD or (count < len(lines) and not outbox.has_room):
                    break
        finally:
            if is_holding:
                outbox.flush()
        return count

    def _command_started(self) -> None:
        self._is_command_starting = False


class Server:
    """`publish` is the client of the session that `serve` takes. Calls `on_closed` when the client disconnects."""

    def __init__(
        self, transport: Transport, dialect: Dialect = DEFAULT, on_closed: Callable[[], None] = _ignore
    ) -> None:
        self._transport = transport
        self._dialect = dialect
        self._outbox = Outbox(transport, on_closed, dialect)
        self.publish = self._outbox.send  # an event: await the result, if there is one, before sending the next event
        self.first_response_sent = asyncio.Event()

    async def serve(self, handle: SessionHandle) -> None:
        """Handle lines until the input ends, then wait for everything that was started."""
        handle.dialogs.answer_timeout_s = ANSWER_TIMEOUT_S
        dispatcher = Dispatcher(
            handle,
            HANDLERS,
            self._outbox,
            self._dialect,
            self.first_response_sent.set,
            new_lender=lambda: handle.host_tools.lender(self._outbox.send_at_once),
        )
        lines = await self._start(handle, dispatcher) if handle.has_extensions else deque()
        self._transport.deliver_to(CommandBatches(dispatcher, self._outbox).handle)
        await self._handle_lines(dispatcher, lines)
        handle.close_dialogs()
        if dispatcher.lender is not None:
            dispatcher.lender.close()
        await dispatcher.wait()
        await handle.settled(COMMAND_TIMEOUT_S)

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

    async def _start(self, handle: SessionHandle, dispatcher: Dispatcher) -> deque[InputLine | None]:
        """Start the extensions. Returns the lines that were received meanwhile."""
        startup = Startup(
            self._transport.receive,
            answer_dialog=dispatcher.handle,
            abort=handle.abort_start,
            end_of_input=handle.close_dialogs,
        )
        return await startup.run(handle.start())

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


async def serve_until_stopped(server: Server, handle: SessionHandle, stop: StopRequest) -> int:
    """Serve the session to the end of the input, or until a request to stop, and close it. Returns the exit code.

    Processes that the session started do not survive this.
    """
    handle.on_exit_request(lambda: stop.ask(ANSWERED))
    try:
        if await stop.unless(server.serve(handle)) and await stop.unless(_close_and_drain(handle, server)):
            return ANSWERED
        await handle.close(SHUTDOWN_TIMEOUT_S * (1.3 if handle.has_extensions else 1))
        await within(SHUTDOWN_TIMEOUT_S / 2, server.drain())
        return stop.code
    finally:
        handle.kill()


async def _close_and_drain(handle: SessionHandle, server: Server) -> None:
    """Close the session, which writes and syncs pending entries, and write the remaining output."""
    await handle.close()
    await server.drain()
