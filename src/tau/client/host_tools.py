"""Tools of the client's program: offered to the agent, run here when the model calls them, and answered.

Plain functions run in threads, so that they may block; coroutine functions run in the client's event loop. A request
that arrives twice, after a lost connection, is run once.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from tau.client.errors import AgentGone
from tau.client.events import RpcEvent
from tau.concurrency.tasks import await_foreign, failure_of
from tau.errors import CommandError, ToolError, UsageError
from tau.functions.function_tools import function_tool
from tau.functions.threads import Threads
from tau.records.base import UNSET
from tau.records.commands import Command, HostTool, HostToolProgress, HostToolResult, SetTools
from tau.records.events import Outcome, ToolRequest, ToolRequestCancelled
from tau.records.messages import Text
from tau.tools import Tool, ToolContext

if TYPE_CHECKING:
    from tau.tools import Machine

ToolLike = Tool | Callable[..., Any]
MAX_REMEMBERED = 1000  # ids of requests that were answered


class NoMachine:
    """The machine of a tool that runs in the client: the agent's files and processes are not reachable."""

    def __getattr__(self, name: str) -> Any:
        raise ToolError("A tool of an RPC client has no `machine`: it runs in the client, not in the agent.")


class HostTools:
    """`call` sends a command to the agent and returns when it is answered."""

    def __init__(
        self, call: Callable[[Command], Coroutine[Any, Any, bytes]], cwd: str | os.PathLike[str] | None
    ) -> None:
        self._call = call
        self._cwd = os.getcwd() if cwd is None else os.fspath(cwd)
        self._threads = Threads()
        self._tools: dict[str, Tool] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._unsent: dict[str, HostToolResult] = {}  # results that a lost connection did not take
        self._answered: deque[str] = deque(maxlen=MAX_REMEMBERED)

    @property
    def definitions(self) -> list[HostTool]:
        """The tools as the agent is told of them."""
        return [
            HostTool(tool.name, tool.description, tool.parameters, prompt_snippet=tool.snippet or None)
            for tool in self._tools.values()
        ]

    def use(self, tools: Sequence[ToolLike]) -> None:
        """Set the tools, before an agent is started. Raises UsageError."""
        self._tools = self._by_name(tools)

    async def offer(self, tools: Sequence[ToolLike]) -> None:
        """Replace the tools of a running agent. Raises UsageError, and CommandError if the agent refuses."""
        old, new = self._tools, self._by_name(tools)
        self._tools = new
        definitions = self.definitions
        self._tools = {**old, **new}  # the model may call a new tool before the response is read here
        try:
            await self._call(SetTools(definitions))
        except BaseException:
            self._tools = old
            raise
        self._tools = new

    def _by_name(self, tools: Sequence[ToolLike]) -> dict[str, Tool]:
        made = [self._tool(tool) for tool in tools]
        return {tool.name: tool for tool in made}

    def _tool(self, tool: ToolLike) -> Tool:
        if isinstance(tool, Tool):
            return tool
        if not callable(tool):
            raise UsageError(f"tools: expected functions and `tau.Tool`s but got {type(tool).__name__}")
        return function_tool(tool, self._threads)

    # Requests.

    def on_event(self, event: RpcEvent) -> None:
        """Called with every event of the agent."""
        if isinstance(event, ToolRequest):
            self._start(event)
        elif isinstance(event, ToolRequestCancelled) and (task := self._running.get(event.id)) is not None:
            task.cancel()

    def cancel_all(self) -> None:
        """The agent has ended: cancel all calls."""
        for task in self._running.values():
            task.cancel()
        self._unsent.clear()

    def _start(self, request: ToolRequest) -> None:
        tool = self._tools.get(request.tool_name)
        if tool is None or request.id in self._running or request.id in self._answered:
            return
        unsent = self._unsent.pop(request.id, None)
        work = self._answer(tool, request) if unsent is None else self._send(unsent)
        task = self._running[request.id] = asyncio.ensure_future(work)
        task.add_done_callback(lambda _: self._running.pop(request.id, None))

    async def _answer(self, tool: Tool, request: ToolRequest) -> None:
        progress = ProgressReports(request.id, self._call)
        context = ToolContext(cast("Machine", NoMachine()), self._cwd, progress.add, call_id=request.tool_call_id)
        try:
            outcome, is_error = await await_foreign(tool.run(request.arguments, context)), False
        except ToolError as error:
            outcome, is_error = Outcome([Text(str(error))]), True
        except BaseException as error:
            failure = failure_of(error)
            _report(f"The tool {tool.name} failed", failure)
            outcome, is_error = Outcome([Text(f"{type(failure).__name__}: {failure}")]), True
        finally:
            await progress.end()
        details = None if outcome.details is UNSET else outcome.details
        await self._send(HostToolResult(request.id, outcome.content, is_error or None, details))

    async def _send(self, result: HostToolResult) -> None:
        try:
            await self._call(result)
        except AgentGone:
            self._unsent[result.request_id] = result
            return
        except CommandError as error:
            if str(error).startswith("content"):  # else the agent does not wait for it any more
                await self._send_refusal(result.request_id, error)
        self._answered.append(result.request_id)

    async def _send_refusal(self, request_id: str, error: CommandError) -> None:
        """The agent cannot use the result, and still waits for one."""
        with suppress(AgentGone, CommandError):
            await self._call(HostToolResult(request_id, f"The result of the tool is not valid: {error}", True))


class ProgressReports:
    """Sends the progress of one call: one report at a time, and only the newest if they come faster than that."""

    def __init__(self, request_id: str, call: Callable[[Command], Coroutine[Any, Any, bytes]]) -> None:
        self._request_id = request_id
        self._call = call
        self._newest: Outcome | None = None
        self._sending: asyncio.Task[None] | None = None

    def add(self, outcome: Outcome) -> None:
        self._newest = outcome
        if self._sending is None:
            self._sending = asyncio.ensure_future(self._send())

    async def end(self) -> None:
        """Wait until the newest report is sent, so that the result comes after it."""
        if self._sending is not None:
            await self._sending

    async def _send(self) -> None:
        while (outcome := self._newest) is not None:
            self._newest = None
            with suppress(AgentGone, CommandError, TimeoutError):
                await self._call(HostToolProgress(self._request_id, outcome.content))
        self._sending = None


def _report(message: str, error: Exception) -> None:
    asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})
