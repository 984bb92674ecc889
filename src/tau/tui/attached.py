"""`tau attach`: the terminal interface on a session of a host, or plain mode."""

from __future__ import annotations

import os
from collections.abc import Awaitable
from typing import NoReturn

from tau.client.client import RpcClient, client_over
from tau.client.opening import Target, remote_line
from tau.records.base import Value
from tau.runtime.app.factory import SessionFactory
from tau.runtime.app.handle import SessionHandle
from tau.runtime.app.process import run_and_exit
from tau.runtime.app.remote_handle import RemoteHandle
from tau.runtime.services import Client
from tau.tui import app, plain
from tau.tui.interface import Interface

DIALECT = "1.5"  # deltas only
LOST = "The connection to the host was lost. What runs there goes on; connecting again."


class Attachment(Value):
    """Which session to open, with the settings of this terminal. The factory's own session runs nothing."""

    target: Target
    factory: SessionFactory
    plain: bool


def serve(attachment: Attachment) -> NoReturn:
    """Run the interface and exit the process. The session goes on."""
    if attachment.plain:
        plain.serve(lambda client: open_remote(attachment, client), [])
    run_and_exit(lambda: app.run(attachment.factory, [], lambda client: open_remote(attachment, client), follow))


def open_remote(attachment: Attachment, client: Client) -> Awaitable[SessionHandle]:
    return _open(attachment, client)


async def _open(attachment: Attachment, client: Client) -> SessionHandle:
    target = attachment.target
    answers = os.isatty(0) and os.isatty(1)
    line = remote_line(target.address, session=target.session, open=target.open, dialect=DIALECT, answers=answers)
    local = attachment.factory.open(client, "print" if attachment.plain else "tui")
    handle = RemoteHandle(local, client_over(line, RpcClient), client)
    await handle.connect()
    return handle


def follow(handle: SessionHandle, interface: Interface) -> None:
    """Let the screen follow a session that changes without a command of this terminal."""
    assert isinstance(handle, RemoteHandle)

    def moved() -> None:
        name = handle.state.current().session_name
        title = name if isinstance(name, str) else handle.log.id
        interface.show_session(title, handle.settings.resume_lines)

    def connection_changed(connected: bool) -> None:
        interface.say("Connected again." if connected else LOST, "info" if connected else "warning")

    handle.moved, handle.synced = moved, interface.command_ended
    handle.connection_changed = connection_changed
    handle.ended = lambda why: interface.say(f"{why} Leave with Ctrl+C twice.", "error")
