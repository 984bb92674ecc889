"""The terminal interface: opens a session and a terminal, and connects them until the person leaves.

Events of the session change the view; keys change the view or start operations of the session. Nothing here decides
what the session does, and the agent never waits for the terminal.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NoReturn

from tau.core.agent.draft import Update
from tau.core.checks.exit_codes import ANSWERED, exit_code_of_signal
from tau.records.dialogs import UiRequest
from tau.records.events import Event
from tau.runtime.app.batch import Prompt
from tau.runtime.app.factory import SessionFactory
from tau.runtime.app.handle import SessionHandle
from tau.runtime.app.process import SHUTDOWN_TIMEOUT_S, StopRequest, run_and_exit
from tau.runtime.services import Client
from tau.tui.exit_summary import ExitSummary, render
from tau.tui.failures import InterfaceFailures
from tau.tui.interface import Interface
from tau.tui.stderr import CapturedStderr
from tau.tui.terminal import Terminal

# To the last row of the screen, whatever is drawn there, and to a new one below it.
BELOW_THE_BOX = b"\x1b[999B\r\n"
SHOWN_AS_EVENTS = "tau.runtime.extensions.registry"  # what it logs is an event too, which the transcript shows


def serve(factory: SessionFactory, prompts: Sequence[Prompt], *, pick_session: bool = False) -> NoReturn:
    """Run the interface and exit the process."""

    async def open_session(client: Client) -> SessionHandle:
        return factory.open(client, "tui")

    run_and_exit(lambda: run(factory, prompts, open_session, pick_session=pick_session))


async def run(
    factory: SessionFactory,
    prompts: Sequence[Prompt],
    open_session: Callable[[Client], Awaitable[SessionHandle]],
    connect: Callable[[SessionHandle, Interface], None] = lambda handle, interface: None,
    *,
    pick_session: bool = False,
) -> int:
    """Run the interface on a session until the person leaves. Returns the exit code. `connect` is called when both
    exist.
    """
    stop = StopRequest()
    waiting: list[Event | Update | UiRequest] = []  # events from before the interface exists
    interface: Interface | None = None
    failures = InterfaceFailures(stop)
    loop = asyncio.get_running_loop()
    summary = ExitSummary(loop.time())

    def client(event: Event | Update | UiRequest) -> None:
        if interface is None:
            waiting.append(event)
            return
        try:
            summary.on_event(event)
            interface.on_event(event)
        except Exception as error:  # the run of the agent must not fail because it cannot be shown
            failures.add(error)

    handle = await open_session(client)  # an error here is printed at the terminal as it was
    terminal = Terminal.open(loop)
    stderr: CapturedStderr | None = None
    try:
        interface = Interface(handle, factory, terminal, stop)
        terminal.on_exit(lambda number: stop.ask(exit_code_of_signal(number)))
        logging.getLogger(SHOWN_AS_EVENTS).setLevel(logging.ERROR)
        stderr = CapturedStderr(partial(interface.say, kind="warning"))
        connect(handle, interface)
        for event in waiting:
            interface.on_event(event)
        interface.show()
        starting = asyncio.ensure_future(interface.start_session(prompts, pick_session=pick_session))
        try:
            if await stop.unless(starting):
                await stop.wait()
        finally:
            starting.cancel()
        await handle.close(SHUTDOWN_TIMEOUT_S)
        if failures.error is not None:
            raise failures.error
        interface.leave()
        terminal.write(render(summary.lines(handle, loop.time())))
        return stop.code if stop.asked else ANSWERED
    except BaseException:
        terminal.write(BELOW_THE_BOX)  # it may be the painter that failed
        raise
    finally:
        terminal.close()
        if stderr is not None:
            stderr.restore()
        handle.kill()
