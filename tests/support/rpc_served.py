"""The interface of rpc_memory, with a host between: the client is a bound channel without numbers, which is a pipe.

Used by tests/rpc with TAU_TEST_SERVED=1, and by tests/serve/test_conformance.py.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from support import rpc_memory
from tau.cli.flags import parse
from tau.cli.session_options import session_options
from tau.runtime.app.process import StopRequest
from tau.runtime.protocol.memory import MemoryTransport
from tau.runtime.terminal import LogFormatter
from tau.serve.access import LOCAL_USER
from tau.serve.host import Host
from tau.serve.opening import HostConfig
from tau.store.paths import agent_dir

COMMAND_TIMEOUT_S = 1.0
WAITS = "a host waits while a client is attached"
SAVED = "choices of the clients of a host are not saved as the user's defaults"
# Tests of tests/rpc that do not hold for a host, and why.
DIFFERENT = {
    "test_what_is_chosen_is_saved_but_not_by_the_newest": SAVED,
    "test_retrying_can_be_switched_off": SAVED,
    "test_get_tools_lists_all_tools_with_their_source_and_set_active_tools_selects": "a client cannot add tools",
    "test_a_question_waits_for_60_s_until_the_client_has_answered_a_dialog": WAITS,
    "test_an_answer_to_no_open_dialog_does_not_make_questions_wait_for_longer": WAITS,
    "test_open_requests_fail_when_the_client_closes_stdin_and_no_new_ones_are_made": "the client may come back",
    "test_an_option_that_no_extension_knows_either_is_refused": "the host goes on; only the session is not started",
}


class Agent(rpc_memory.Agent):
    """One host with one session."""

    async def _main(self, handler: rpc_memory.ThreadLog) -> int:
        self._loop = asyncio.get_running_loop()
        self._stop = StopRequest()
        self._transport = MemoryTransport()
        self._greeted = False
        self._loop.call_soon(self._ready.set)  # the hello is written before the first line of the client
        factory = self._factory()
        handler.setFormatter(LogFormatter(factory.models.keys.known_secrets))
        options = session_options(parse(self._args), self._env)
        host = Host(HostConfig(agent_dir(self._env), options, [str(self.cwd)], self._env))
        host.opener.folders = lambda: [Path("/")]  # type: ignore[method-assign]
        live = await host._live._add(factory)
        hello: dict[str, Any] = {"type": "hello", "version": 1, "session": live.id, "flow": "wait"}
        hello |= {"numbers": False, "dialect": factory.dialect.name}
        self._transport.feed(json.dumps(hello).encode() + b"\n")
        live.handle.on_exit_request(lambda: self._stop.ask(0))
        try:
            return 0 if await self._stop.unless(self._serve(host, live)) else self._stop.code
        finally:
            await host.close()
            await self._transport.close()
            if self._reading is not None:
                await self._reading

    async def _serve(self, host: Host, live: Any) -> None:
        """As RPC mode does: when the input has ended, what was started is finished."""
        transport = EndAfterRuns(self._transport, live)
        await host.serve(transport, LOCAL_USER, "memory")  # type: ignore[arg-type]

    def _received(self, data: bytes) -> None:
        if not self._greeted and data:
            self._early = getattr(self, "_early", b"") + data
            if b"\n" not in self._early:
                return
            hello, data = self._early.split(b"\n", 1)
            assert json.loads(hello)["success"], hello
            self._greeted = True
            if not data:
                return
        super()._received(data)


class EndAfterRuns:
    """A transport whose input ends only when the session has settled, because a pipe is read to the end of its run."""

    def __init__(self, transport: MemoryTransport, live: Any) -> None:
        self._transport = transport
        self._live = live

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    async def receive(self) -> Any:
        line = await self._transport.receive()
        if line is None:
            for attachment in [*self._live.attachments]:
                self._live.handle.close_dialogs()
                await attachment.wait()
            await self._live.handle.settled(COMMAND_TIMEOUT_S)
        return line
