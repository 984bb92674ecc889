"""The RPC server and a session in this process, on the in-memory transport. The interface is that of rpc_process.

Each agent has an event loop in a thread of its own. Folders, environment and flags are passed in; the process's own
environment, working directory and signal handlers are not changed. `~` is the process's, see tests/rpc/conftest.py.
What a process would print on stderr is in `stderr`: warnings, errors and the log of the agent's thread.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from types import MappingProxyType
from typing import Any

from support.rpc_conversation import WITHIN, Conversation, Json
from support.rpc_process import surroundings
from tau.cli.flags import parse
from tau.cli.session_options import session_options
from tau.cli.suggestions import unknown_flags_error
from tau.core.checks.exit_codes import FAILED, USAGE
from tau.errors import ExtensionFailure, TauError, UsageError
from tau.rpc.server import Server, serve_until_stopped
from tau.runtime.app.factory import SessionFactory, load
from tau.runtime.app.process import StopRequest
from tau.runtime.protocol.memory import MemoryTransport
from tau.runtime.terminal import LogFormatter
from tau.store.paths import agent_dir

TERMINATED = 143


class Agent(Conversation):
    """One server. The parameters are those of `support.rpc_process.Agent`."""

    def __init__(
        self,
        folder: Path,
        *answers: Json,
        settings: Json | None = None,
        models: Json | None = None,
        args: Sequence[str] = (),
        offline: bool = True,
        listening: bool = True,
        env: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(folder)
        self._env = {**surroundings(folder, settings, models), **env}
        self._args = [*(_script(folder, answers) if offline else ()), *args]
        self._code: int | None = None
        self._stderr: list[str] = []
        self._reading: asyncio.Task[None] | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"agent {folder.name}", daemon=True)
        self._thread.start()
        self._ready.wait()
        if listening:
            self.listen()

    # The client's side, in the thread of the test.

    def write(self, data: bytes, *, within: float = WITHIN) -> None:
        if self._code is not None:
            self.fail("nobody reads any more")
        try:
            asyncio.run_coroutine_threadsafe(self._transport.client.write(data), self._loop).result(within)
        except TimeoutError:
            self.fail(f"{len(data)} bytes were not taken within {within} s")
        except CancelledError:
            self.fail("it ended before it took the input")

    def close(self) -> None:
        self._in_loop(self._transport.client.end_input)

    def deafen(self) -> None:
        assert self._reading is None
        self._in_loop(self._transport.client.disconnect)

    def listen(self) -> None:
        def start() -> None:
            self._reading = self._loop.create_task(self._read())

        self._in_loop(start)

    def exit_code(self, *, within: float = WITHIN) -> int:
        self._thread.join(within)
        if self._code is None or self._thread.is_alive():
            self.fail(f"still running after {within} s")
        return self._code

    def end(self) -> None:
        self.close()
        self._in_loop(self._stop.ask, TERMINATED)
        self._thread.join(WITHIN)
        if self._thread.is_alive():
            self.fail(f"still running {WITHIN} s after it was stopped")

    @property
    def code(self) -> int | None:
        return self._code

    @property
    def stderr(self) -> str:
        return "".join(f"{line}\n" for line in self._stderr)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{name}: only a process has it; mark the test with pytest.mark.process")

    def _in_loop(self, function: Any, *args: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:  # it has ended
            return

    # The server's side, in the thread of the agent.

    def _run(self) -> None:
        code = FAILED
        handler = ThreadLog(self._stderr)
        logging.getLogger().addHandler(handler)
        try:
            with asyncio.Runner() as runner:
                code = runner.run(self._main(handler))
        except ExtensionFailure as error:
            self._stderr.append(f"Error: {error}")
        except TauError as error:
            self._stderr.append(f"Error: {error}")
            code = USAGE
        except Exception:
            logging.getLogger("tau").exception("tau broke off")
        finally:
            logging.getLogger().removeHandler(handler)
            if not self._ended:
                self._received(b"")
            self._code = code

    async def _main(self, handler: ThreadLog) -> int:
        self._loop = asyncio.get_running_loop()
        self._stop = StopRequest()
        self._transport = MemoryTransport()
        self._ready.set()
        factory = self._factory()
        handler.setFormatter(LogFormatter(factory.models.keys.known_secrets))
        server = Server(self._transport, factory.dialect, lambda: self._stop.ask(0))
        handle = factory.open(server.publish, shared=True)
        try:
            return await serve_until_stopped(server, handle, self._stop)
        finally:
            await server.close()
            await handle.release()
            if self._reading is not None:
                await self._reading

    def _factory(self) -> SessionFactory:
        given = parse(self._args)
        factory = load(agent_dir(self._env), session_options(given, self._env), self._env, str(self.cwd))
        self._stderr += [f"Warning: {warning}" for warning in factory.warnings]
        if given.unknown and not factory.extensions:
            raise UsageError(unknown_flags_error(given.unknown))
        return factory.with_sandbox()

    async def _read(self) -> None:
        while data := await self._transport.client.read():
            self._received(data)
        self._received(b"")


class ThreadLog(logging.Handler):
    """The warnings of one thread, as lines."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._lines = lines
        self._thread = threading.get_ident()
        self.setFormatter(LogFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self._thread:
            self._lines.append(self.format(record))


def _script(folder: Path, answers: Sequence[Json]) -> list[str]:
    script = folder / "script.json"
    script.write_text(json.dumps({"answers": answers or [{"text": "ok"}]}))
    return ["--model", "scripted", "--script", str(script)]
