"""RPC mode on the real stdin and stdout: descriptors, signals, the end.

    stdin ends            finish the run, then exit 0
    the reader is gone    stop everything at once, exit 0
    SIGTERM, INT, HUP     stop everything, exit 143, 130, 129

Whatever happens, no process that a tool started is left behind.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import NoReturn

from tau.core.draft import Update
from tau.core.exits import ANSWERED
from tau.core.pricing import OFFLINE_APIS
from tau.host.life import FAREWELL, Stop, Tidying, claim, to_the_end, within
from tau.host.machine import LocalMachine
from tau.host.session import Client, Session
from tau.llm.http import Http
from tau.records.dialogs import UiRequest
from tau.records.events import AgentSettled, Event
from tau.rpc.inbox import Inbox
from tau.rpc.outbox import Outbox
from tau.rpc.server import Server
from tau.wire.dialect import Dialect
from tau.wire.dialects import DEFAULT

LINE_LIMIT = 32 * 1024 * 1024
log = logging.getLogger(__name__)
PAUSE = 0.03  # seconds in which a client says what it has ready

Opened = tuple[Session, LocalMachine, Http]


def serve(open_session: Callable[[Client], Opened], dialect: Dialect = DEFAULT) -> NoReturn:
    """Run RPC mode to its end. The process ends here, with the code of the table above."""
    stdin, stdout = claim()
    to_the_end(lambda: _serve(open_session, dialect, stdin, stdout))


async def _serve(open_session: Callable[[Client], Opened], dialect: Dialect, stdin: int, stdout: int) -> int:
    stop = Stop()
    outbox = Outbox(stdout, lambda: stop.ask(ANSWERED), dialect)
    loop, tidying = asyncio.get_running_loop(), Tidying()

    def tell(event: Event | Update | UiRequest) -> Awaitable[None] | None:
        if isinstance(event, AgentSettled):
            loop.call_soon(tidying.settled, session.log.id)
        return outbox.send(event)

    session, machine, http = open_session(tell)
    session.leave = lambda: stop.ask(ANSWERED)
    server = Server(session, Inbox(stdin, LINE_LIMIT), outbox, dialect)
    warming = asyncio.create_task(_warm(server, outbox, http, session))
    try:
        if await stop.unless(server.serve()) and await stop.unless(_ended(session, outbox)):
            return ANSWERED
        await within(FAREWELL * (1.3 if session.guests.expected else 1), session.close())
        await within(FAREWELL / 2, outbox.drained())
        return stop.code
    finally:
        machine.kill_all()
        session.guests.kill()
        warming.cancel()


async def _ended(session: Session, outbox: Outbox) -> None:
    """Nothing runs any more: what waits for its place in the session file gets it, and all of it lasts."""
    await session.close()
    await outbox.drained()


async def _warm(server: Server, outbox: Outbox, http: Http, session: Session) -> None:
    """Load tools and the HTTP client while the client thinks about its first answer, not while it waits for one."""
    await server.answered.wait()
    await asyncio.sleep(PAUSE)
    while outbox.busy:
        await asyncio.sleep(PAUSE)
    threading.Thread(target=_load, args=(http, session), daemon=True).start()


def _load(http: Http, session: Session) -> None:
    try:
        list(session.around.tools.values())
        model = session.models.current
        if model is not None and model.api not in OFFLINE_APIS:
            http.warm(model.base_url)
    except OSError as error:  # no descriptor is free; who needs it will load it
        log.debug("nothing was loaded ahead of time: %s", error)
