"""MCP server on any transport: requests to handlers, one task each, and requests of its own to the client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from tau.mcp_server.calls import Call, ParkedCalls
from tau.mcp_server.protocol import Protocol as McpProtocol
from tau.mcp_server.protocol import Refused, RequestFacts
from tau.records.base import UNSET
from tau.runtime.protocol.outbox import Outbox
from tau.runtime.protocol.requests import InputLine
from tau.runtime.protocol.responses import unexpected_failure
from tau.wire.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    ErrorResponse,
    Id,
    InvalidMessage,
    Notification,
    Request,
    Response,
    encode_error,
    encode_invalid,
    encode_notification,
    encode_request,
    encode_response,
    parse_message,
)

if TYPE_CHECKING:
    from tau.runtime.protocol.transport import Transport

MAX_OPEN_REQUESTS = 256
END_OF_INPUT_GRACE_S = 0.5  # for short requests: input may come from a file


class Features(Protocol):
    """What the server offers. Methods raise Refused for what they cannot do."""

    def tools(self) -> list[dict[str, Any]]: ...

    async def call_tool(self, name: str, arguments: dict[str, Any], call: Call) -> dict[str, Any]: ...

    async def resources(self, cursor: Any) -> dict[str, Any]: ...

    async def read_resource(self, uri: str, facts: RequestFacts) -> dict[str, Any]: ...


class ClientRefused(Exception):
    """The client answered a request of the server with an error."""


class McpServer:
    """One client. `on_closed` is called when it does not read any more."""

    def __init__(
        self, transport: Transport, protocol: McpProtocol, features: Features, on_closed: Callable[[], None]
    ) -> None:
        self._transport = transport
        self._protocol = protocol
        self._features = features
        self._outbox = Outbox(transport, on_closed)
        self._tasks: dict[Id, asyncio.Task[None]] = {}
        self._parked = ParkedCalls()
        self._asked: dict[Id, asyncio.Future[Any]] = {}  # requests of the server without an answer
        self._count = 0
        self._methods: dict[str, Callable[[RequestFacts], Awaitable[dict[str, Any]]]] = {
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
            "resources/list": self._list_resources,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read_resource,
        }

    async def serve(self) -> None:
        """Handle messages until the input ends. What is not answered END_OF_INPUT_GRACE_S later is cancelled."""
        try:
            while (line := await self._transport.receive()) is not None:
                if (backpressure := self._outbox.wait_for_room()) is not None:
                    await backpressure
                self._handle(line)
            if self._tasks:
                await asyncio.wait(self._tasks.values(), timeout=END_OF_INPUT_GRACE_S)
        finally:
            await self._cancel_all()

    async def drain(self) -> None:
        await self._outbox.drain()

    async def close(self) -> None:
        await self._outbox.close()

    # Messages.

    def _handle(self, line: InputLine) -> None:
        if not isinstance(line, bytes):
            self._outbox.send_line(encode_error(None, INVALID_REQUEST, "The message is too long."))
            return
        if not line.strip():
            return
        try:
            message = parse_message(line)
        except InvalidMessage as error:
            if not error.is_response:
                self._outbox.send_line(encode_invalid(error))
            return
        match message:
            case Request():
                self._start(message)
            case Notification(method="notifications/cancelled", params=dict(params)):
                if (task := self._tasks.get(_id(params.get("requestId")))) is not None:
                    task.cancel()
            case Response(id, result) if id is not None and id in self._asked:
                _settle(self._asked[id], result)
            case ErrorResponse(id, failure) if id is not None and id in self._asked:
                _settle(self._asked[id], ClientRefused(failure.message))

    def _start(self, request: Request) -> None:
        if request.id in self._tasks:
            self._outbox.send_line(encode_error(request.id, INVALID_REQUEST, "A request with this id is under way."))
        elif len(self._tasks) >= MAX_OPEN_REQUESTS:
            self._outbox.send_line(encode_error(request.id, INTERNAL_ERROR, "Too many requests are under way."))
        elif request.method in ("initialize", "ping", "server/discover"):
            self._respond_at_once(request)
        else:
            task = self._tasks[request.id] = asyncio.create_task(self._respond(request))
            task.add_done_callback(lambda _: self._tasks.pop(request.id, None))

    def _respond_at_once(self, request: Request) -> None:
        protocol = self._protocol
        try:
            facts = protocol.facts(request)
            result: dict[str, Any] = {}
            if request.method == "initialize":
                result = protocol.initialize(facts.params)
            elif request.method == "server/discover":
                result = protocol.discover()
            self._outbox.send_line(encode_response(request.id, protocol.shaped(facts, result)))
        except Refused as refused:
            self._outbox.send_line(encode_error(request.id, refused.code, str(refused), refused.data))

    async def _respond(self, request: Request) -> None:
        try:
            facts = self._protocol.facts(request)
            handler = self._methods.get(request.method)
            if handler is None:
                raise Refused(METHOD_NOT_FOUND, f"Method not found: {request.method[:80]}")
            result = self._protocol.shaped(facts, await handler(facts))
            line = encode_response(request.id, result)
        except Refused as refused:
            line = encode_error(request.id, refused.code, str(refused), refused.data)
        except Exception as error:
            line = encode_error(request.id, INTERNAL_ERROR, unexpected_failure(request.method, error))
        self._outbox.send_line(line)

    async def _cancel_all(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._parked.cancel_all()

    # Methods.

    async def _list_tools(self, facts: RequestFacts) -> dict[str, Any]:
        return {"tools": self._features.tools()}

    async def _call_tool(self, facts: RequestFacts) -> dict[str, Any]:
        if "requestState" in facts.params:
            call = self._parked.take(facts)
        else:
            name, arguments = facts.params.get("name"), facts.params.get("arguments")
            if not isinstance(name, str):
                raise Refused(INVALID_PARAMS, "name: expected a string")
            if not isinstance(arguments, dict | None):
                raise Refused(INVALID_PARAMS, "arguments: expected an object")
            given = arguments or {}
            call = Call(facts, lambda call: self._features.call_tool(name, given, call), self._ask, self._notify)
        result = await call.next_result()
        return call.input_required(self._parked.park(call)) if result is None else result

    async def _list_resources(self, facts: RequestFacts) -> dict[str, Any]:
        return await self._features.resources(facts.params.get("cursor"))

    async def _list_templates(self, facts: RequestFacts) -> dict[str, Any]:
        return {"resourceTemplates": []}

    async def _read_resource(self, facts: RequestFacts) -> dict[str, Any]:
        uri = facts.params.get("uri")
        if not isinstance(uri, str):
            raise Refused(INVALID_PARAMS, "uri: expected a string")
        return await self._features.read_resource(uri, facts)

    # To the client.

    def _notify(self, method: str, params: Mapping[str, Any]) -> None:
        self._outbox.send_line(encode_notification(method, dict(params)))

    async def _ask(self, form: Mapping[str, Any]) -> Any:
        """Ask the user of a legacy client. A cancelled question is taken back. None if the client refuses."""
        self._count += 1
        id = f"tau-{self._count}"
        answer = self._asked[id] = asyncio.get_running_loop().create_future()
        self._outbox.send_line(encode_request(id, "elicitation/create", dict(form)))
        try:
            with suppress(ClientRefused):
                return await answer
            return None
        except asyncio.CancelledError:
            self._notify("notifications/cancelled", {"requestId": id})
            raise
        finally:
            del self._asked[id]


def _id(value: Any) -> Any:
    return value if isinstance(value, str | int) and not isinstance(value, bool) else UNSET


def _settle(future: asyncio.Future[Any], value: Any) -> None:
    if future.done():
        return
    if isinstance(value, Exception):
        future.set_exception(value)
    else:
        future.set_result(value)
