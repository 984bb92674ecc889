"""Host tools: tools that run in a client, which lends them to the session.

A call of the model goes to the client that lent the tool, as a `tool_request` event, and its result comes back as a
command. The tools belong to the connection, not to the session: they are kept when another session is opened, and are
not stored. A client whose connection is lost may get some time to come back; meanwhile its requests stay open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from tau.core.checks.host_tools import Content, check_host_tools, checked_content
from tau.errors import CommandError, ToolError
from tau.records.base import UNSET, Value
from tau.records.commands import HostTool
from tau.records.events import Outcome, ToolRequest, ToolRequestCancelled
from tau.records.messages import Image, Text
from tau.runtime.extensions.dialogs import dialog_id
from tau.runtime.runs.tool_runner import ToolRunner
from tau.tools import Tool, ToolContext
from tau.tools.partial_result import ErrorResult
from tau.tools.registry import MODULES
from tau.tools.result_limits import fit_result

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

    def __init__(self, tool_runner: ToolRunner, switching: Callable[[], bool]) -> None:
        self._tool_runner = tool_runner
        self._switching = switching
        self._lenders: list[ToolLender] = []

    def lender(self, send: Send) -> ToolLender:
        """Add a client. `send` sends it an event, at once and without waiting."""
        lender = ToolLender(self, send)
        self._lenders.append(lender)
        return lender

    # Called by lenders.

    def taken_names(self, lender: ToolLender) -> dict[str, str]:
        """Whose tools the names are that this lender cannot use."""
        others = (other for other in self._lenders if other is not lender)
        return {
            **{name: "an extension" for name in self._tool_runner.extension_tools},
            **{name: "another client" for other in others for name in other.tools},
        }

    def changed(self) -> None:
        self._tool_runner.host_tools = {name: tool for lender in self._lenders for name, tool in lender.tools.items()}

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

    # Commands of the client.

    def set_tools(self, tools: Sequence[HostTool]) -> list[str]:
        """Replace the set of tools. Raises CommandError, and the old set stays. Open requests stay open."""
        check_host_tools(tools, self._host_tools.taken_names(self), list(MODULES))
        self.tools = {tool.name: self._as_tool(tool) for tool in tools}
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
