"""RPC mode on the real stdin and stdout: descriptors, signals, the end.

    stdin ends            finish the run, then exit 0
    the reader is gone    stop everything at once, exit 0
    SIGTERM, INT, HUP     stop everything, exit 143, 130, 129

Whatever happens, no process that a tool started is left behind.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from tau.host.machine import LocalMachine
from tau.host.session import Client, Session
from tau.llm.http import Http
from tau.rpc.inbox import Inbox
from tau.rpc.outbox import Outbox
from tau.rpc.server import Server

log = logging.getLogger(__name__)

LINE_LIMIT = 32 * 1024 * 1024
FAREWELL = 1.0  # seconds to write what is left, and to stop
SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP")

Opened = tuple[Session, LocalMachine, Http]


def claim() -> tuple[int, int]:
    """Private descriptors for the protocol.

    Whatever else in this process, or a child of it, reads stdin finds it empty,
    and what it prints lands on stderr: nothing can break a record.
    """
    private = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # stderr is closed
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
    os.close(nothing)
    return private


def serve(open_session: Callable[[Client], Opened]) -> int:
    """Run RPC mode to its end and return the exit code."""
    stdin, stdout = claim()
    return asyncio.run(_serve(open_session, stdin, stdout))


async def _serve(open_session: Callable[[Client], Opened], stdin: int, stdout: int) -> int:
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[int] = loop.create_future()

    def ask_to_stop(code: int) -> None:
        if not stop.done():
            stop.set_result(code)

    for name in SIGNALS:
        number = getattr(signal, name, None)
        if number is not None:
            loop.add_signal_handler(number, ask_to_stop, 128 + number)

    outbox = Outbox(stdout, lambda: ask_to_stop(0))
    session, machine, http = open_session(outbox.send)
    server = Server(session, Inbox(stdin, LINE_LIMIT), outbox)
    serving = asyncio.create_task(server.serve())
    warming = asyncio.create_task(_warm(server, http, session))
    try:
        waiting: set[asyncio.Future[Any]] = {serving, stop}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if serving.done() and not stop.done():
            serving.result()
            await outbox.drained(60)
            return 0
        try:
            async with asyncio.timeout(FAREWELL):
                await session.close()
        except TimeoutError:
            log.warning("the run did not stop in time")
        await outbox.drained(FAREWELL / 2)
        return stop.result()
    finally:
        machine.kill_all()
        warming.cancel()
        # Threads may hang in a read or a write that never ends; there is nothing left to lose.
        _leave(stop.result() if stop.done() else 0 if serving.done() and not serving.exception() else 1)


async def _warm(server: Server, http: Http, session: Session) -> None:
    """Load the HTTP library while the client reads its first answer."""
    await server.answered.wait()
    if session.models.current is not None and session.models.current.base_url:
        threading.Thread(target=http.warm, daemon=True).start()


def _leave(code: int) -> None:
    sys.stderr.flush()
    os._exit(code)
