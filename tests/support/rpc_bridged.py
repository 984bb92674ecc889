"""The interface of rpc_memory, with a host and the bridge between: what `pi --mode rpc --connect` does.

Used by tests/rpc with TAU_TEST_SERVED=bridge.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from support import rpc_memory, rpc_served
from support.rpc_served import EndAfterRuns
from support.socket_host import listening
from tau.cli.flags import parse
from tau.cli.session_options import session_options
from tau.client.opening import Target
from tau.rpc.bridge import Bridge
from tau.runtime.app.process import StopRequest
from tau.runtime.protocol.memory import MemoryTransport
from tau.runtime.terminal import LogFormatter
from tau.serve.host import Host
from tau.serve.opening import HostConfig
from tau.store.paths import agent_dir

DETACHES = "the end of stdin detaches the client; the host ends its requests later"
DIFFERENT = {
    **rpc_served.DIFFERENT,
    "test_open_requests_fail_when_the_client_closes_stdin_and_no_new_ones_are_made": DETACHES,
}


class Agent(rpc_memory.Agent):
    """One host with one session, and one bridge."""

    async def _main(self, handler: rpc_memory.ThreadLog) -> int:
        self._loop = asyncio.get_running_loop()
        self._stop = StopRequest()
        self._transport = MemoryTransport()
        self._ready.set()
        factory = self._factory()
        handler.setFormatter(LogFormatter(factory.models.keys.known_secrets))
        options = session_options(parse(self._args), self._env)
        host = Host(HostConfig(agent_dir(self._env), options, [str(self.cwd)], self._env))
        host.opener.folders = lambda: [Path("/")]  # type: ignore[method-assign]
        try:
            async with listening(host) as served:
                live = await host._live._add(factory)
                live.handle.on_exit_request(lambda: self._stop.ask(0))
                target = Target(served.address, live.id, None, factory.dialect)
                transport = EndAfterRuns(self._transport, live)
                bridge = Bridge(transport, target, lambda: self._stop.ask(0))  # type: ignore[arg-type]
                await bridge.start()
                try:
                    return bridge.code if await self._stop.unless(bridge.run()) else self._stop.code
                finally:
                    await bridge.stop()
        finally:
            await self._transport.close()
            if self._reading is not None:
                await self._reading
