"""`tau acp` on stdin and stdout: descriptors, signals, exit codes.

    stdin ends               abort everything, exit 0
    stdout's reader closes   abort everything, exit 0
    SIGTERM, INT, HUP        abort everything, exit 143, 130, 129

No process that a tool or an MCP server started survives in any of these cases.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from tau.acp.server import Server
from tau.core.checks.exit_codes import ANSWERED
from tau.runtime.app.process import SHUTDOWN_TIMEOUT_S, StopSignal, claim_stdio, run_and_exit, within
from tau.runtime.protocol.pipes import PipeTransport

if TYPE_CHECKING:
    from tau.acp.sessions import Loader


def serve(make_loader: Callable[[], Loader]) -> NoReturn:
    """Serve a client until it leaves, and exit the process with a code of the table above."""
    stdin, stdout = claim_stdio()
    run_and_exit(lambda: _serve(make_loader, stdin, stdout))


async def _serve(make_loader: Callable[[], Loader], stdin: int, stdout: int) -> int:
    stop = StopSignal()
    server = Server(PipeTransport(stdin, stdout), make_loader, lambda: stop.ask(ANSWERED))
    try:
        ended = await stop.unless(server.serve())
        await within(SHUTDOWN_TIMEOUT_S * 1.8, server.close())
        return ANSWERED if ended else stop.code
    finally:
        server.kill()
