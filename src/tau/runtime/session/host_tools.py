"""Host tools: tools that run in a client, which lends them to the session.

A call of the model goes to the client that lent the tool, as a `tool_request` event, and its result comes back as a
command. The tools belong to the connection, not to the session: they are kept when another session is opened, and are
not stored. A client whose connection is lost may get some time to come back; meanwhile its requests stay open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from tau.core.checks.host_tools import Content, check_host_tools, checked_content
from tau.errors import CommandError, ToolError
from tau.records.base import UNSET, Value, replace
from tau.records.commands import HostTool
from tau.records.events import Outcome, ToolRequest, ToolRequestCancelled
from tau.records.messages import Image, Text
from tau.runtime.extensions.dialogs import dialog_id
from tau.runtime.runs.tool_runner import ToolRunner
from tau.tools import Tool, ToolContext
from tau.tools.partial_result import ErrorResult
from tau.tools.registry import MODULES
from tau.tools.result_limits import fit_result

if TYPE_CHECKING:
    from tau.runtime.session.mcp_access import McpAccess

Send = Callable[[ToolRequest | ToolRequestCancelled], None]
CancelReason = Literal["aborted", "timeout", "session"]
CLIENT_GONE = "The client has gone."


class HostResult(Value):
    """The answer to a tool request."""

    content: list[Text | Image]
    is_error: bool
    details: Any


class OpenRequest:
    """A request without an answer."""

    def __init__(self, event: ToolRequest, context: ToolContext) -> None:
        self.event = event
        self.context = context
        self.answer: asyncio.Future[HostResult] = asyncio.get_running_loop().create_future()

    def fail(self, reason: str) -> None:
        if not self.answer.done():
            self.answer.set_exception(ToolError(reason))


class HostTools:
    """The tools that the clients of a session lend. `switching` is true while another session is being opened."""

    def __init__(
        self, tool_runner: ToolRunner, switching: Callable[[], bool], mcp: Callable[[], McpAccess | None] = lambda: None
    ) -> None:
        self._tool_runner = tool_runner
        self._switching = switching
        self._mcp = mcp
        self._lenders: list[ToolLender] = []
        self._search: Tool | None = None  # if there are deferred tools
        self._loaded: list[str] = []  # deferred tools that were searched for

    def lender(self, send: Send) -> ToolLender:
        """Add a client. `send` sends it an event, at once and without waiting."""
        lender = ToolLender(self, send)
        self._lenders.append(lender)
        return lender

    # Called by lenders.

    def taken_names(self, lender: ToolLender) -> dict[str, str]:
        """Whose tools the names are that this lender cannot use."""
        others = (other for other in self._lenders if other is not lender)
        mcp = self._tool_runner.mcp
        return {
            **{name: "an extension" for name in self._tool_runner.extension_tools},
            **{name: "an MCP server" for name in (() if mcp is None else mcp.offered)},
            **{name: "another client" for other in others for name in other.tools},
        }

    def changed(self) -> None:
        """Tell the tool runner what there is now: tools that were searched for stand behind all others."""
        lent = {name: tool for lender in self._lenders for name, tool in lender.tools.items()}
        deferred = {name: lent.pop(name) for lender in self._lenders for name in lender.deferred}
        loaded = {name: deferred.pop(name) for name in self._loaded if name in deferred}
        if deferred or loaded:
            search = self._require_search()
            lent[search.name] = search
            self._tool_runner.search_tool = search.name
        self._tool_runner.host_tools = {**lent, **loaded}
        self._tool_runner.deferred_tools = {
            name: replace(tool, run=partial(self._load_and_run, tool)) for name, tool in deferred.items()
        }

    async def _load_and_run(self, tool: Tool, arguments: dict[str, Any], context: ToolContext) -> Outcome:
        """A call of a deferred tool loads it."""
        self._load(tool.name)
        return await tool.run(arguments, context)

    def _load(self, name: str) -> None:
        if name not in self._loaded:
            self._loaded.append(name)
            self.changed()

    def _require_search(self) -> Tool:
        if self._search is None:
            from tau.runtime.session.deferred_tools import DeferredTools

            self._search = DeferredTools(
                lambda: self._tool_runner.deferred_tools, self._load, self._mcp()
            ).search_tool()
        return self._search

    def remove(self, lender: ToolLender) -> None:
        if lender in self._lenders:
            self._lenders.remove(lender)
            self.changed()

    @property
    def cancel_reason(self) -> CancelReason:
        return "session" if self._switching() else "aborted"


class ToolLender:
    """One client and its tools.

    `disconnect` and `reconnect` are for connections that may be lost for a while; `close` is final.
    """

    def __init__(self, host_tools: HostTools, send: Send) -> None:
        self._host_tools = host_tools
        self._send: Send | None = send  # None while the connection is lost
        self._open: dict[str, OpenRequest] = {}
        self._gone = False
        self._expiry: asyncio.TimerHandle | None = None
        self.tools: Mapping[str, Tool] = {}
        self.deferred: Sequence[str] = ()  # the names of those that the model has to search for

    # Commands of the client.

    def set_tools(self, tools: Sequence[HostTool]) -> list[str]:
        """Replace the set of tools. Raises CommandError, and the old set stays. Open requests stay open."""
        check_host_tools(tools, self._host_tools.taken_names(self), list(MODULES))
        self.tools = {tool.name: self._as_tool(tool) for tool in tools}
        self.deferred = [tool.name for tool in tools if tool.exposure == "deferred"]
        self._host_tools.changed()
        return list(self.tools)

    def progress(self, request_id: str, content: Content) -> None:
        request = self._waiting(request_id)
        request.context.progress(Outcome(checked_content(content)))

    def finish(self, request_id: str, content: Content, *, is_error: bool, details: Any) -> None:
        request = self._waiting(request_id)
        request.answer.set_result(HostResult(checked_content(content), is_error, details))

    def _waiting(self, request_id: str) -> OpenRequest:
        request = self._open.get(request_id)
        if request is None or request.answer.done():
            raise CommandError(f"requestId: no tool request {request_id[:80]!r} is open")
        return request

    # The connection.

    def disconnect(self, seconds: float) -> None:
        """The connection is lost. Unless `reconnect` is called within the time, the tools are taken away."""
        self._send = None
        self._cancel_expiry()
        if self.tools or self._open:
            self._expiry = asyncio.get_running_loop().call_later(seconds, self.remove)
        else:
            self.remove()

    def reconnect(self, send: Send) -> None:
        """The client is back. It gets its open requests again, since it may have missed them."""
        self._cancel_expiry()
        self._send = send
        for request in self._open.values():
            if not request.answer.done():
                send(request.event)

    def close(self) -> None:
        """The client has gone: open requests fail, and so do calls of its tools, which stay listed."""
        self._cancel_expiry()
        self._gone, self._send = True, None
        for request in self._open.values():
            request.fail(CLIENT_GONE)

    @property
    def gone(self) -> bool:
        """True after `close`, and when the time to come back is over."""
        return self._gone

    def remove(self) -> None:
        """Close it, and take its tools away."""
        self.close()
        self._host_tools.remove(self)

    def _cancel_expiry(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    # Calls of the model.

    def _as_tool(self, given: HostTool) -> Tool:
        async def run(arguments: dict[str, Any], context: ToolContext) -> Outcome:
            return await self._call(given, arguments, context)

        return Tool(given.name, given.description, given.prompt_snippet or "", given.parameters, run)

    async def _call(self, tool: HostTool, arguments: dict[str, Any], context: ToolContext) -> Outcome:
        if self._gone:
            raise ToolError(CLIENT_GONE)
        timeout = UNSET if tool.timeout_ms is None else tool.timeout_ms
        request = OpenRequest(ToolRequest(dialog_id(), context.call_id, tool.name, arguments, timeout), context)
        result = await self._answer(request)
        content = await fit_result(result.content, context)
        if result.is_error:
            raise ErrorResult(content, result.details)
        return Outcome(content, UNSET if result.details is None else result.details)

    async def _answer(self, request: OpenRequest) -> HostResult:
        event = request.event
        seconds = None if event.timeout is UNSET else event.timeout / 1000
        self._open[event.id] = request
        try:
            async with asyncio.timeout(seconds):
                self._tell(event)
                return await request.answer
        except TimeoutError:
            self._tell(ToolRequestCancelled(event.id, "timeout"))
            raise ToolError(f"{event.tool_name} did not answer within {seconds:g} s.") from None
        except asyncio.CancelledError:
            self._tell(ToolRequestCancelled(event.id, self._host_tools.cancel_reason))
            raise
        finally:
            del self._open[event.id]
            if not request.answer.cancel() and not request.answer.cancelled():
                request.answer.exception()  # mark it as retrieved, even if the call was cancelled

    def _tell(self, event: ToolRequest | ToolRequestCancelled) -> None:
        if self._send is not None:
            self._send(event)
