"""RpcClient: an agent in another process, driven over its stdin and stdout.

async with RpcClient(cwd="project", model="demo") as agent:
    async for event in agent.prompt_events("What files are here?"):
        match event:
            case MessageUpdate(assistant_message_event=TextDelta(delta=text)):
                print(text, end="")
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from tau.client.addresses import find_address
from tau.client.calls import Calls, Images
from tau.client.connection import Connection
from tau.client.errors import AgentGone
from tau.client.events import RpcEvent
from tau.client.handlers import EventHandler, Handlers
from tau.client.line import Line, MakeLine, OnEnd, OnLine
from tau.client.opening import remote_line
from tau.client.process import AgentCommand, AgentProcess
from tau.client.stream import MAX_BUFFERED_EVENTS, Events
from tau.core.checks.dialog_handlers import DialogHandler, Method
from tau.errors import TauError, UsageError
from tau.records.commands import Command, SetTools

if TYPE_CHECKING:
    from tau.client.host_tools import HostTools
    from tau.tools import Tool

Executable = str | os.PathLike[str] | Sequence[str]
Queued = Literal["steer", "followUp"] | None


class RpcClient(Calls):
    """An agent in another process. By default that is tau; `executable` names another program: a path, or a list of
    arguments.

    `env` is added to the environment; `args` are appended to the command line. `timeout` applies to commands that are
    answered at once; there is no time limit for commands that take long (prompt, bash, compact, …). `tools` are
    functions of this program that the model can call, as `set_tools`.
    """

    def __init__(
        self,
        cwd: str | os.PathLike[str] | None = None,
        provider: str | None = None,
        model: str | None = None,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        executable: Executable | None = None,
        *,
        dialect: str | None = None,
        timeout: float | None = 60.0,
        tools: Sequence[Tool | Callable[..., Any]] = (),
    ) -> None:
        argv = command_line(executable, provider, model, dialect, args)

        def make_line(on_line: OnLine, on_end: OnEnd) -> Line:
            return AgentProcess(AgentCommand(argv, cwd, {**os.environ, **(env or {})}), on_line, on_end)

        self._make_line: MakeLine = make_line
        self._cwd = cwd
        self._timeout = timeout
        self._settles = executable is None and dialect is None
        self._handlers = Handlers()
        self._connection: Connection | None = None
        self._host_tools: HostTools | None = None
        if tools:
            self._require_host_tools().use(tools)

    @classmethod
    def connect(
        cls,
        url: str = "unix:",
        *,
        token: str | None = None,
        session: str | None = None,
        open: Mapping[str, Any] | None = None,
        dialect: str = "1.5",
        reconnect: bool = True,
        timeout: float | None = 60.0,
        tools: Sequence[Tool | Callable[..., Any]] = (),
    ) -> Self:
        """Return a client for a session of a host (`tau serve`): `session` is its id, `open` the fields of a session to
        open; without either, a new session is opened.

        It connects when it is started, and again when the connection is lost: events continue without a gap, or with a
        Snapshot, and commands that were not answered are repeated. `stop` detaches, and what runs goes on. A dialog
        without a handler is left to the other clients of the session.

        `url` is "unix:" for the host of this user, "unix:/path" or "http://host:port"; `token` is the one to send,
        by default that of the agent folder if the host runs here. In the dialect "1.5" message_update events carry
        only what is new; "default" adds the message so far. `tools` are functions of this program, as `set_tools`; they
        are offered again after a lost connection.
        """
        address = find_address(url, token)
        make_line = remote_line(address, session=session, open=open, dialect=dialect, reconnect=reconnect)
        client = client_over(make_line, cls, timeout=timeout)
        if tools:
            client._require_host_tools().use(tools)
        return client

    # Process.

    async def start(self) -> None:
        """Start the agent and wait until it responds. Raises AgentGone if it fails to start."""
        if self.running:
            raise TauError("The agent has already been started.")
        connection = Connection(self._make_line, self._handlers.publish, settles=self._settles, timeout=self._timeout)
        await connection.line.start()
        self._connection = connection
        self._handlers.attach(connection)
        connection.open()
        try:
            await self.get_state()
            if self._host_tools is not None and self._host_tools.definitions:
                await self.call(SetTools(self._host_tools.definitions))
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop the agent, by force if necessary, and fail all pending calls. Takes seconds at most."""
        if self._connection is not None:
            try:
                await self._connection.stop()
            finally:
                if self._host_tools is not None:
                    self._host_tools.cancel_all()
                await self._handlers.detach()

    def __await__(self) -> Generator[Any, None, Self]:
        """`await RpcClient.connect(url)` starts the client; `stop` ends it."""
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def stderr(self) -> str:
        """The last 64 KB that the agent wrote to stderr, including lines on stdout that are not JSON records."""
        return self._connection.line.stderr if self._connection else ""

    @property
    def pid(self) -> int | None:
        """The process id of the agent; None before `start`."""
        return self._connection.line.pid if self._connection else None

    @property
    def exit_code(self) -> int | None:
        """None while the agent runs; a negative signal number if a signal killed it."""
        return self._connection.line.exit_code if self._connection else None

    @property
    def running(self) -> bool:
        """True from `start` until the agent is gone."""
        return self._connection is not None and not self._connection.closed

    def _require_connection(self) -> Connection:
        if self._connection is None:
            raise AgentGone("The agent was not started: use the client in a `with`, or call start().")
        return self._connection

    async def call(self, command: Command) -> bytes:
        """Send any command. Returns the JSON of the response's data, b"" if it has none."""
        return await self._require_connection().call(command)

    # Events.

    def on_event(self, handler: EventHandler) -> Callable[[], None]:
        """Call `handler` with every event. Returns a function that unsubscribes it.

        A coroutine function is awaited for one event after the other, and the agent waits if it is slow.
        """
        return self._handlers.add(handler)

    def events(self, limit: int | None = MAX_BUFFERED_EVENTS) -> Events:
        """Return the events from now on, for `async for`. When the reader is `limit` events behind, the agent waits;
        None means no limit.
        """
        return self._require_connection().events(limit)

    async def prompt_events(
        self,
        message: str,
        images: Images = None,
        *,
        streaming_behavior: Queued = None,
        limit: int | None = MAX_BUFFERED_EVENTS,
    ) -> AsyncGenerator[RpcEvent, None]:
        """Send a message and yield events until the agent is idle. Leaving the loop early does not abort the run."""
        async with self.events(limit) as events:
            await self.prompt(message, images, streaming_behavior=streaming_behavior)
            watch = asyncio.ensure_future(self._require_connection().wait_until_idle_at_reader_pace())
            watch.add_done_callback(lambda done: events.finish(None if done.cancelled() else done.exception()))
            try:
                async for event in events:
                    yield event
            finally:
                watch.cancel()

    async def prompt_and_wait(
        self,
        message: str,
        images: Images = None,
        *,
        streaming_behavior: Queued = None,
        timeout: float | None = 60.0,
    ) -> list[RpcEvent]:
        """Send a message, wait until the agent is idle, and return all events in between."""
        events: list[RpcEvent] = []
        unsubscribe = self.on_event(events.append)
        try:
            async with _within(timeout):
                await self.prompt(message, images, streaming_behavior=streaming_behavior)
                await self._require_connection().wait_until_idle()
        finally:
            unsubscribe()
        return events

    async def wait_for_idle(self, timeout: float | None = 60.0) -> None:
        """Wait until all prompts are finished. Raises TimeoutError after `timeout` seconds; the run continues."""
        async with _within(timeout):
            await self._require_connection().wait_until_idle()

    # Tools of this program.

    async def set_tools(self, tools: Sequence[Tool | Callable[..., Any]]) -> None:
        """Offer functions of this program to the model, from its next call on: they replace those offered before.

        They run in this process: plain functions in threads, coroutine functions in the event loop. An agent that is
        started again gets them again. Raises UsageError for a function that cannot be a tool, and CommandError if the
        agent refuses them; then the old set stays. Only tau supports this.
        """
        await self._require_host_tools().offer(tools)

    def _require_host_tools(self) -> HostTools:
        if self._host_tools is None:
            from tau.client.host_tools import HostTools

            self._host_tools = HostTools(self.call, self._cwd)
            self._handlers.add(self._host_tools.on_event)
        return self._host_tools

    # Dialogs.

    def on_dialog(self, handler: DialogHandler, *methods: Method) -> Callable[[], None]:
        """Let `handler` answer dialogs of extensions: all of them, or those of the given methods.

        It returns a string, or a boolean for `confirm`. None cancels the dialog, as does having no handler. Returns a
        function that unsubscribes the handler.
        """
        return self._handlers.dialogs.add(handler, methods)


ClientT = TypeVar("ClientT", bound=RpcClient)


def client_over(make_line: MakeLine, kind: type[ClientT], *, timeout: float | None = 60.0) -> ClientT:
    """Return a client for the session of a host that this line leads to."""
    client = kind(timeout=timeout)
    client._make_line = make_line
    client._settles = True
    client._handlers = Handlers(shared=True)
    return client


def line_of(client: RpcClient) -> Line:
    """The line of a client that was started."""
    return client._require_connection().line


async def send_line(client: RpcClient, line: bytes) -> None:
    """Send a line that has no response, such as the answer to a dialog."""
    await client._require_connection().line.write(line + b"\n")


def command_line(
    executable: Executable | None, provider: str | None, model: str | None, dialect: str | None, args: Sequence[str]
) -> list[str]:
    """Return the command line of the agent. With -P, modules in the agent's working directory cannot shadow Python's
    own. Raises UsageError for `args` that are not a list of strings.
    """
    if isinstance(args, str | bytes) or not isinstance(args, Sequence):
        raise UsageError(f"args: expected a list of strings but got {type(args).__name__}")
    for at, argument in enumerate(args):
        if not isinstance(argument, str):
            raise UsageError(f"args[{at}]: expected a string but got {type(argument).__name__}")
    match executable:
        case None:
            command = [sys.executable, "-P", "-m", "tau"]
        case str():
            command = [executable]
        case os.PathLike():
            command = [os.fspath(executable)]
        case _:
            command = list(executable)
    options = {"--mode": "rpc", "--provider": provider, "--model": model, "--dialect": dialect}
    flags = [argument for name, value in options.items() if value is not None for argument in (name, value)]
    return [*command, *flags, *args]


@asynccontextmanager
async def _within(seconds: float | None) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds) as limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise TimeoutError(f"The agent was still working after {seconds:g} s.") from None
