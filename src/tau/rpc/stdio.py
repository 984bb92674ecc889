"""RPC mode on the real stdin and stdout: descriptors, signals, the end.

    stdin ends            finish the run, then exit 0
    the reader is gone    stop everything at once, exit 0
    SIGTERM, INT, HUP     stop everything, exit 143, 130, 129

Whatever happens, no process that a tool started is left behind.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from tau.core.pricing import OFFLINE_APIS
from tau.errors import ExtensionFailure, TauError
from tau.host.machine import LocalMachine
from tau.host.session import Client, Session
from tau.llm.http import Http
from tau.rpc.inbox import Inbox
from tau.rpc.outbox import Outbox
from tau.rpc.server import Server

log = logging.getLogger(__name__)

LINE_LIMIT = 32 * 1024 * 1024
PAUSE = 0.03  # seconds in which a client says what it has ready
FAREWELL = 1.0  # seconds to write what is left, and to stop
SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP")

Opened = tuple[Session, LocalMachine, Http]


def claim() -> tuple[int, int]:
    """Private descriptors for the protocol.

    Whatever else in this process, or a child of it, reads stdin finds it empty,
    and what it prints lands on stderr: nothing can break a record.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    private = _copy(0, nothing), _copy(1, nothing)
    os.dup2(nothing, 0)
    os.dup2(_copy(2, nothing), 1)
    return private


def _copy(handle: int, instead: int) -> int:
    try:
        return os.dup(handle)
    except OSError:  # we were started with it closed
        return os.dup(instead)


def serve(open_session: Callable[[Client], Opened]) -> NoReturn:
    """Run RPC mode to its end. The process ends here, with the code of the table above."""
    # A long conversation is a million objects that live as long as the session. What is loaded by now lives for
    # ever, and there are few circles to be found among the rest: looking for them seldom is looking often enough.
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
    asyncio.run(_serve_to_the_end(open_session, *claim()))
    raise AssertionError("RPC mode ends with its process")


async def _serve_to_the_end(open_session: Callable[[Client], Opened], stdin: int, stdout: int) -> NoReturn:
    code = 1
    try:
        code = await _serve(open_session, stdin, stdout)
    except ExtensionFailure as error:  # one that was named on the command line
        print(f"Error: {error}", file=sys.stderr)
    except TauError as error:  # a session that another process has, for one
        print(f"Error: {error}", file=sys.stderr)
        code = 2
    except Exception:
        log.exception("RPC mode broke off")
    finally:
        if sys.stderr is not None:  # we may have been started without it
            sys.stderr.flush()
        # Not by way of asyncio.run, which waits for every task and thread: one of them may never end.
        os._exit(code)


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
    session.leave = lambda: ask_to_stop(0)
    server = Server(session, Inbox(stdin, LINE_LIMIT), outbox)
    warming = asyncio.create_task(_warm(server, outbox, http, session))
    try:
        if await _unless(stop, server.serve()) and await _unless(stop, _ended(session, outbox)):
            return 0
        await _within(FAREWELL + (FAREWELL if session.extensions.handlers else 0), session.close())
        await _within(FAREWELL / 2, outbox.drained())
        return stop.result()
    finally:
        machine.kill_all()
        session.guests.kill()
        warming.cancel()


async def _ended(session: Session, outbox: Outbox) -> None:
    await session.farewell()
    await outbox.drained()


async def _unless(stop: asyncio.Future[int], work: Coroutine[Any, Any, None]) -> bool:
    """Do `work`; False if it was asked to stop before that was done."""
    task = asyncio.ensure_future(work)
    waiting: set[asyncio.Future[Any]] = {task, stop}
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    if stop.done():
        return False
    task.result()
    return True


async def _within(seconds: float, work: Coroutine[Any, Any, None]) -> None:
    try:
        async with asyncio.timeout(seconds):
            await work
    except TimeoutError:
        log.info("left behind after %s s: %s", seconds, work)


async def _warm(server: Server, outbox: Outbox, http: Http, session: Session) -> None:
    """Load the HTTP library while the client thinks about its first answer, not while it waits for the next."""
    await server.answered.wait()
    await asyncio.sleep(PAUSE)
    while outbox.busy:
        await asyncio.sleep(PAUSE)
    if session.models.current is not None and session.models.current.api not in OFFLINE_APIS:
        threading.Thread(target=http.warm, daemon=True).start()
