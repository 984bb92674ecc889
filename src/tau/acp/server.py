"""ACP server: one client on a transport, and its sessions.

Every request gets exactly one response. Requests start in the order of their lines; one that takes time does not delay
the next, so that a cancel can overtake the prompt that it cancels. When the input ends, all runs are aborted: an
editor that has closed cannot be answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from tau.acp.client import Client
from tau.acp.errors import CANCELLED, AcpError, invalid_params, invalid_request, unknown_method
from tau.acp.methods import METHODS, NOTIFICATIONS, Answer, Method
from tau.acp.requests import Capabilities, Params, with_empty_objects
from tau.records.base import UNSET, BadRecord, convert, decode, encode
from tau.runtime.protocol.outbox import Outbox
from tau.runtime.protocol.requests import InputLine
from tau.runtime.protocol.responses import unexpected_failure
from tau.wire.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorResponse,
    Id,
    InvalidMessage,
    Notification,
    Request,
    Response,
    encode_error,
    encode_invalid,
    encode_response,
    parse_message,
)
from tau.wire.lines import LineTooLong

if TYPE_CHECKING:
    from tau.acp.session import AcpSession
    from tau.acp.sessions import Loader, Sessions
    from tau.acp.turns import Turn
    from tau.runtime.protocol.transport import Transport

logger = logging.getLogger(__name__)
MAX_CONCURRENT_REQUESTS = 1024
LINES_PER_YIELD = 64
MAX_INTEGER_ID = 2**63


class Server:
    """`make_loader` is called with the first session. `on_closed` is called when the client stops reading."""

    def __init__(
        self, transport: Transport, make_loader: Callable[[], Loader], on_closed: Callable[[], None] = lambda: None
    ) -> None:
        self._transport = transport
        self._make_loader = make_loader
        self._outbox = Outbox(transport, on_closed)
        self.client = Client(self._outbox)
        self._sessions: Sessions | None = None
        self._tasks: dict[Id, asyncio.Task[None]] = {}
        self.turns: dict[Id, tuple[AcpSession, Turn]] = {}  # prompts without a response, by the id of their request
        self._is_initialized = False

    # For methods.

    @property
    def sessions(self) -> Sessions:
        if self._sessions is None:
            from tau.acp.sessions import Sessions

            self._sessions = Sessions(self.client, self._make_loader())
        return self._sessions

    def find_session(self, id: str) -> AcpSession | None:
        return None if self._sessions is None else self._sessions.find(id)

    def initialized(self, capabilities: Capabilities, info: Mapping[str, Any] | None) -> None:
        if not self._is_initialized:
            self._is_initialized = True
            self.client.capabilities = capabilities
            logger.info("the client is %s", encode(info).decode() if info else "unknown")

    def cancel_task(self, id: Id) -> None:
        """Cancel a request under way. Its answer is an error."""
        task = self._tasks.get(id)
        if task is not None:
            task.cancel()

    # The connection.

    async def serve(self) -> None:
        """Handle lines until the input ends."""
        count = 0
        while (line := await self._transport.receive()) is not None:
            if (backpressure := self._outbox.wait_for_room()) is not None:
                await backpressure
            if self._handle_safely(line):
                await asyncio.sleep(0)  # start the request before handling the next line
            count += 1
            if count % LINES_PER_YIELD == 0:
                await asyncio.sleep(0)

    async def close(self) -> None:
        """Abort everything, answer what waits, close the sessions and write what is left."""
        self.client.leave()
        if self._sessions is not None:
            await self._sessions.close_all()
        for id in list(self._tasks):
            if id not in self.turns:
                self.cancel_task(id)
        while self._tasks:
            await asyncio.wait(self._tasks.values())
        if self._sessions is not None:
            await self._sessions.close_all()  # opened meanwhile
        await self._outbox.drain()

    def kill(self) -> None:
        """Kill every process that a session started."""
        if self._sessions is not None:
            self._sessions.kill()

    # Lines.

    def _handle_safely(self, line: InputLine) -> bool:
        """No line ends the process, not even by a bug."""
        try:
            return self._handle(line)
        except Exception as error:
            self._respond_error(None, INTERNAL_ERROR, unexpected_failure("a line", error))
            return False

    def _handle(self, line: InputLine) -> bool:
        """Handle one line. Returns True if it started a task."""
        if isinstance(line, LineTooLong):
            self._respond_error(None, PARSE_ERROR, f"The line is longer than {line.size_limit} bytes.")
            return False
        if not line or line.isspace():
            return False
        try:
            message = parse_message(line)
        except InvalidMessage as error:
            if not error.is_response:
                self.client.send(encode_invalid(error))
            return False
        match message:
            case Request():
                return self._request(message)
            case Notification():
                self._notification(message)
            case Response() | ErrorResponse():
                self.client.answer(message)
        return False

    def _request(self, request: Request) -> bool:
        id = request.id
        if isinstance(id, int) and not -MAX_INTEGER_ID <= id < MAX_INTEGER_ID:
            self._respond_error(None, INVALID_REQUEST, '"id" must be an integer of 64 bits, or a string.')
            return False
        try:
            method = METHODS.get(request.method)
            if not self._is_initialized and request.method != "initialize":
                raise invalid_request("The connection is not initialized: send `initialize` first.")
            if method is None:
                raise unknown_method(request.method)
            if id in self._tasks:
                raise invalid_request(f"A request with the id {id!r} is under way.")
            if len(self._tasks) >= MAX_CONCURRENT_REQUESTS:
                raise invalid_request("Too many requests are under way. Try again later.")
            params = parse_params(method, request.params)
            result = method.handler(self, params, id) if method.with_id else method.handler(self, params)
        except Exception as error:
            self._respond_failure(id, request.method, error)
            return False
        if not isinstance(result, CoroutineType):
            self._respond(id, result)
            return False
        task = asyncio.create_task(self._finish(request, result))
        self._tasks[id] = task
        task.add_done_callback(lambda _: self._tasks.pop(id, None))
        return True

    async def _finish(self, request: Request, work: Coroutine[Any, Any, Any]) -> None:
        try:
            result = await work
        except asyncio.CancelledError:
            self._respond_error(request.id, CANCELLED, "The request was cancelled.")
            return
        except Exception as error:
            self._respond_failure(request.id, request.method, error)
            return
        self._respond(request.id, result)

    def _notification(self, message: Notification) -> None:
        """Unknown notifications, and those with wrong parameters, are ignored: there is no answer to them."""
        method = NOTIFICATIONS.get(message.method)
        if method is None or not self._is_initialized:
            return
        try:
            method.handler(self, parse_params(method, message.params))
        except AcpError as error:
            logger.info("ignored %s: %s", message.method, error)
        except Exception:
            logger.exception("unexpected error in %s", message.method)

    # Responses.

    def _respond(self, id: Id, result: Any) -> None:
        after = None
        if isinstance(result, Answer):
            result, after = result
        self.client.send(encode_response(id, result))
        if after is not None:
            after()

    def _respond_failure(self, id: Id, method: str, error: Exception) -> None:
        if isinstance(error, AcpError):
            self._respond_error(id, error.code, str(error), error.data)
            return
        self._respond_error(id, INTERNAL_ERROR, unexpected_failure(method, error))

    def _respond_error(self, id: Id | None, code: int, message: str, data: Any = UNSET) -> None:
        # `details`, as the official SDK fills it: some clients show nothing else.
        self.client.send(encode_error(id, code, message, {"details": message, **(data or {})}))


def parse_params(method: Method, params: Any) -> Params:
    """Raises AcpError that names the wrong field."""
    given = with_empty_objects(params) if isinstance(params, dict | list) else {}
    if isinstance(given, list):
        raise invalid_params("params", "expected an object")
    try:
        try:
            checked: Params = convert(given, method.params)
        except UnicodeEncodeError:  # a lone surrogate
            checked = decode(method.params, encode(given))
    except BadRecord as error:
        field, colon, problem = str(error).partition(": ")
        raise invalid_params(field if colon else "", problem if colon else str(error)) from None
    return checked
