"""RPC server: one session for one client."""

from __future__ import annotations

import asyncio
from collections import deque

from tau.rpc.commands import HANDLERS, WITH_REQUEST
from tau.rpc.inbox import Inbox
from tau.rpc.outbox import Outbox
from tau.runtime.protocol.dispatcher import Dispatcher, HandlerTable
from tau.runtime.protocol.requests import InputLine
from tau.runtime.protocol.startup import Startup
from tau.runtime.session.session import Session
from tau.wire.dialect import Dialect
from tau.wire.dialects import DEFAULT

LINES_PER_YIELD = 64
COMMAND_TIMEOUT_S = 1.0  # for a slash command of an extension to end after the input has ended and no run is active


class Server:
    def __init__(self, session: Session, inbox: Inbox, outbox: Outbox, dialect: Dialect = DEFAULT) -> None:
        self._session = session
        self._inbox = inbox
        self._outbox = outbox
        self.first_response_sent = asyncio.Event()
        table = HandlerTable(HANDLERS, WITH_REQUEST)
        self._dispatcher = Dispatcher(session, table, outbox, dialect, self.first_response_sent.set)

    async def serve(self) -> None:
        """Handle lines until the input ends, then wait for everything that was started."""
        session = self._session
        lines = await self._start_extensions() if session.extension_lifecycle.has_extensions else deque()
        count = 0
        while (line := lines.popleft() if lines else await self._inbox.next()) is not None:
            if (backpressure := self._outbox.wait_for_room()) is not None:
                await backpressure
            if self._dispatcher.handle(line):
                await asyncio.sleep(0)  # start the command before handling the next line
            count += 1
            if count % LINES_PER_YIELD == 0:
                await asyncio.sleep(0)
        session.dialogs.close()
        await self._dispatcher.wait()
        await session.runs.idle()
        while not await session.running_commands.wait(COMMAND_TIMEOUT_S) and session.runs.busy:
            await session.runs.idle()  # a run that the slash command started or waits for
        await session.runs.idle()

    async def _start_extensions(self) -> deque[InputLine | None]:
        session = self._session

        def abort() -> None:
            session.hooks.abort()
            session.dialogs.cancel()

        startup = Startup(
            self._inbox.next,
            answer_dialog=self._dispatcher.handle,
            abort=abort,
            end_of_input=session.dialogs.close,
        )
        return await startup.run(session.extension_lifecycle.start())
