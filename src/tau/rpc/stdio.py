"""RPC mode on stdin and stdout: descriptors, signals, exit codes.

    stdin ends               finish the run, exit 0
    stdout's reader closes   abort everything, exit 0
    SIGTERM, INT, HUP        abort everything, exit 143, 130, 129

No process that a tool started survives in any of these cases.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import NoReturn

from tau.core.agent.draft import Update
from tau.core.checks.exit_codes import ANSWERED
from tau.records.dialogs import UiRequest
from tau.records.events import AgentSettled, Event
from tau.rpc.server import Server, serve_until_stopped
from tau.runtime.app.handle import SessionHandle
from tau.runtime.app.process import GarbageCollector, StopSignal, claim_stdio, run_and_exit
from tau.runtime.protocol.pipes import PipeTransport
from tau.runtime.services import Client
from tau.wire.dialect import Dialect
from tau.wire.dialects import DEFAULT

logger = logging.getLogger(__name__)
WARM_UP_DELAY_S = 0.1  # lets the client send the commands that it has ready, and agents beside this one start

Open = Callable[[Client], SessionHandle]


def serve(open_session: Open, dialect: Dialect = DEFAULT) -> NoReturn:
    """Run RPC mode and exit the process with a code of the table above."""
    stdin, stdout = claim_stdio()
    run_and_exit(lambda: _serve(open_session, dialect, stdin, stdout))


async def _serve(open_session: Open, dialect: Dialect, stdin: int, stdout: int) -> int:
    stop = StopSignal()
    server = Server(PipeTransport(stdin, stdout), dialect, lambda: stop.ask(ANSWERED))
    loop, collector = asyncio.get_running_loop(), GarbageCollector()

    def publish(event: Event | Update | UiRequest) -> Awaitable[None] | None:
        if type(event) is AgentSettled:
            loop.call_soon(collector.settled, handle.log.id)
        return server.publish(event)

    handle = open_session(publish)
    warm_up = asyncio.create_task(_warm(server, handle))
    try:
        return await serve_until_stopped(server, handle, stop)
    finally:
        warm_up.cancel()


async def _warm(server: Server, handle: SessionHandle) -> None:
    """Load tools and the HTTP client, and index the session, while the user thinks about the first prompt."""
    await server.first_response_sent.wait()
    await asyncio.sleep(WARM_UP_DELAY_S)
    while server.busy:
        await asyncio.sleep(WARM_UP_DELAY_S)
    threading.Thread(target=_load, args=(handle,), daemon=True).start()
    for _ in handle.index_entries():
        await asyncio.sleep(WARM_UP_DELAY_S if server.busy else 0)


def _load(handle: SessionHandle) -> None:
    try:
        handle.preload()
    except OSError as error:  # out of descriptors; it is loaded again on first use
        logger.debug("warm-up failed: %s", error)
