"""`tau mcp serve` on stdin and stdout: descriptors, signals, exit codes.

When stdin ends, what takes no time is finished, the rest is aborted, and the exit code is 0. When the reader of stdout
is gone, everything is aborted, and it is 0 too. SIGTERM, INT and HUP abort everything: 143, 130, 129.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from tau import __version__
from tau.core.checks.exit_codes import ANSWERED
from tau.mcp_server.agents import Load
from tau.mcp_server.features import AGENT_TOOLS, ServedFeatures
from tau.mcp_server.protocol import Protocol
from tau.mcp_server.server import McpServer
from tau.runtime.app.options import SessionOptions
from tau.runtime.app.process import SHUTDOWN_TIMEOUT_S, StopRequest, StopSignal, claim_stdio, run_and_exit, within
from tau.runtime.protocol.pipes import PipeTransport

if TYPE_CHECKING:
    from tau.runtime.protocol.transport import Transport

INSTRUCTIONS = (
    "tau is a coding agent. `tau` lets it work on a task in a folder, `tau_reply` continues. Its sessions of this"
    " folder are resources."
)
CAPABILITIES: dict[str, dict[str, object]] = {"tools": {}, "resources": {}}


def serve(load: Load, options: SessionOptions, roots: Sequence[str], names: Sequence[str] = AGENT_TOOLS) -> NoReturn:
    """Serve the process's stdin and stdout, and exit with a code of the table above."""
    stdin, stdout = claim_stdio()
    features = ServedFeatures(load, options, roots, names)

    async def run() -> int:
        return await serve_transport(PipeTransport(stdin, stdout), features, StopSignal())

    run_and_exit(run)


async def serve_transport(transport: Transport, features: ServedFeatures, stop: StopRequest) -> int:
    """Serve one client until it is gone, or until a request to stop. Returns the exit code."""
    protocol = Protocol(__version__, INSTRUCTIONS, CAPABILITIES)
    server = McpServer(transport, protocol, features, lambda: stop.ask(ANSWERED))
    ended = await stop.unless(server.serve())
    await within(3 * SHUTDOWN_TIMEOUT_S, features.close())
    await within(SHUTDOWN_TIMEOUT_S / 2, server.drain())
    return ANSWERED if ended else stop.code
