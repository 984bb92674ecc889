"""One connection to a server: requests and their answers, progress, cancellation, and requests of the server.

A request is sent once, whatever happens. An answer to a request that has no caller any more is dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from itertools import count
from typing import Any, Protocol

from tau.mcp.definitions import Era, safe_text
from tau.mcp.messages import MAX_INPUT_ROUNDS, ClientProfile, McpError, NoAnswer, error_text, with_meta
from tau.records.base import BadRecord, Value
from tau.runtime.mcp.call_timeout import CallTimeout
from tau.runtime.mcp.transport import Outgoing, Transport
from tau.wire import jsonrpc
from tau.wire.jsonrpc import METHOD_NOT_FOUND, ErrorResponse, InvalidMessage, Notification, Request, Response

logger = logging.getLogger(__name__)
NOISE_LINES = 100  # lines that are no messages, after which that is reported once
MAX_SERVER_REQUESTS = 20  # of the server, at the same time
MAX_REFUSALS = 20  # that are being sent; requests beyond that get no answer
NOTIFY_TIMEOUT_S = 5.0

ProgressCallback = Callable[[Mapping[str, Any]], None]


class Asker(Protocol):
    """Answers questions of a server to the user, for one call."""

    @property
    def session(self) -> object:
        """Identifies the session of the call: sessions may share a connection."""

    async def elicit(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Returns an ElicitResult."""


class Events(Protocol):
    """What happens on a connection besides answers."""

    def notified(self, method: str, params: Mapping[str, Any]) -> None: ...

    def noted(self, text: str) -> None:
        """Something for the log: noise, messages that make no sense."""

    def disconnected(self, error: McpError) -> None: ...


class RequestOptions(Value):
    """How to wait for an answer. Times are in seconds. `asker` answers questions that belong to this request."""

    timeout: float
    max_timeout: float | None = None
    progress: ProgressCallback | None = None
    asker: Asker | None = None
    schema: Mapping[str, Any] | None = None
    cancellable: bool = True


class _Pending:
    """A request whose answer is awaited."""

    def __init__(self, options: RequestOptions, limit: CallTimeout) -> None:
        self.options = options
        self.limit = limit
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.questions: set[asyncio.Task[None]] = set()


class Connection:
    """Implements Receiver for its transport. `root` is the folder of the session, as a file:// address."""

    def __init__(self, transport: Transport, client: ClientProfile, root: str, events: Events) -> None:
        self.transport = transport
        self.era: Era = "legacy"
        self._client = client
        self._root = root
        self._events = events
        self._ids = count(1)
        self._pending: dict[int, _Pending] = {}
        self._questions: dict[str | int, asyncio.Task[None]] = {}  # requests of the server
        self._tasks: set[asyncio.Future[Any]] = set()
        self._noise = 0
        self.error: McpError | None = None  # why the connection has ended

    @property
    def busy(self) -> bool:
        """True while an answer is awaited."""
        return bool(self._pending)

    async def start(self) -> None:
        await self.transport.start(self)

    async def close(self, grace_s: float) -> None:
        """Cancelled, this kills the process instead of waiting for its end."""
        self._fail_all(McpError("The server was stopped."))
        try:
            await self.transport.close(grace_s)
        except asyncio.CancelledError:
            self.transport.kill()
            raise

    def kill(self) -> None:
        self._fail_all(McpError("The server was stopped."))
        self.transport.kill()

    # Requests to the server.

    async def request(self, method: str, params: Mapping[str, Any], options: RequestOptions) -> Any:
        """Send a request and return its result. Questions of a modern server are answered. Raises McpError."""
        limit = CallTimeout(options.timeout, options.max_timeout)
        try:
            async with limit:
                given = params
                for _ in range(MAX_INPUT_ROUNDS):
                    result = await self._exchange(method, given, options, limit)
                    if not isinstance(result, Mapping) or result.get("resultType") != "input_required":
                        return result
                    given = {**params, **await self._inputs(result, options, limit)}
        except TimeoutError:
            raise NoAnswer(f"No answer within {options.timeout:g} s.") from None
        raise McpError(f"It asked for input more than {MAX_INPUT_ROUNDS} times.")

    async def _exchange(
        self, method: str, params: Mapping[str, Any], options: RequestOptions, limit: CallTimeout
    ) -> Any:
        if self.error is not None:
            raise McpError(str(self.error), sent=False, login=self.error.login)
        id = next(self._ids)
        token = id if options.progress is not None else None
        sent = with_meta(params, self._client, self.era, token)
        try:
            data = jsonrpc.encode_request(id, method, sent)
        except BadRecord as error:
            raise McpError(f"The arguments cannot be sent: {error}", sent=False) from None
        pending = self._pending[id] = _Pending(options, limit)
        try:
            await self.transport.send(Outgoing(data, id, method, sent, options.schema))
            return await pending.answer
        except asyncio.CancelledError:
            self._cancel(id, options)
            raise
        finally:
            del self._pending[id]
            if pending.answer.done() and not pending.answer.cancelled():
                pending.answer.exception()  # marks it as retrieved: sending may have failed as well
            for task in pending.questions:
                task.cancel()

    def _cancel(self, id: int, options: RequestOptions) -> None:
        if not self.transport.cancel(id) and options.cancellable and self.error is None:
            self._spawn(self.notify("notifications/cancelled", {"requestId": id, "reason": "The user cancelled it."}))

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification; a failure is only logged."""
        data = jsonrpc.encode_notification(method, params) if params else jsonrpc.encode_notification(method)
        await self._deliver(Outgoing(data, None, method, params or {}))

    async def _deliver(self, message: Outgoing) -> None:
        try:
            async with asyncio.timeout(NOTIFY_TIMEOUT_S):
                await self.transport.send(message)
        except (McpError, TimeoutError) as error:
            logger.debug("an MCP message was not delivered: %s", error)

    # Receiver.

    def is_open(self, id: int) -> bool:
        return id in self._pending and not self._pending[id].answer.done()

    def request_failed(self, id: int, error: McpError) -> None:
        pending = self._pending.get(id)
        if pending is not None and not pending.answer.done():
            pending.answer.set_exception(error)

    def closed(self, error: McpError) -> None:
        self._fail_all(error)
        self._events.disconnected(error)

    def received(self, data: bytes) -> None:
        try:
            message = jsonrpc.parse_message(data)
        except InvalidMessage as error:
            self._on_noise(data, error)
            return
        match message:
            case Response(id, result):
                self._answered(id, result, None)
            case ErrorResponse(id, failed):
                text = error_text(failed.code, failed.message)
                self._answered(id, None, McpError(text, code=failed.code, data=failed.data))
            case Notification(method, params):
                self._notified(method, params if isinstance(params, dict) else {})
            case Request(id, method, params):
                self._asked(id, method, params if isinstance(params, dict) else {})

    def _on_noise(self, data: bytes, error: InvalidMessage) -> None:
        """Some servers print other lines to stdout. They are passed over."""
        self._noise += 1
        if isinstance(error.id, int) and error.is_response and self.is_open(error.id):
            self.request_failed(error.id, McpError(f"Its answer is broken: {error}"))
        if self._noise == 1:
            self._events.noted(f"a line that is not a message: {safe_text(data[:200].decode('utf-8', 'replace'), 200)}")
        elif self._noise == NOISE_LINES:
            self._events.noted(f"{NOISE_LINES} lines that are not messages")

    def _answered(self, id: str | int | None, result: Any, error: McpError | None) -> None:
        pending = self._pending.get(id) if isinstance(id, int) else None
        if pending is None or pending.answer.done():
            self._events.noted(f"an answer to a request that is not open: {safe_text(str(id), 64)}")
        elif error is not None:
            pending.answer.set_exception(error)
        else:
            pending.answer.set_result(result)

    def _notified(self, method: str, params: Mapping[str, Any]) -> None:
        if method == "notifications/progress":
            token = params.get("progressToken")
            pending = self._pending.get(token) if isinstance(token, int) and token is not True else None
            if pending is not None and pending.options.progress is not None:
                pending.limit.restart()
                pending.options.progress(params)
        elif method == "notifications/cancelled":
            cancelled = params.get("requestId")
            task = self._questions.get(cancelled) if isinstance(cancelled, str | int) else None
            if task is not None:
                task.cancel()
        else:
            self._events.notified(method, params)

    def _fail_all(self, error: McpError) -> None:
        if self.error is None:
            self.error = error
        for pending in self._pending.values():
            if not pending.answer.done():
                pending.answer.set_exception(error)
        for task in (*self._questions.values(), *self._tasks):
            task.cancel()

    # Requests of the server.

    def _asked(self, id: str | int, method: str, params: Mapping[str, Any]) -> None:
        if len(self._questions) >= MAX_SERVER_REQUESTS or id in self._questions:
            if len(self._tasks) < MAX_REFUSALS:
                self._spawn(self._reply(jsonrpc.encode_error(id, jsonrpc.INVALID_REQUEST, "Too many requests.")))
            return
        pending = self._asking()
        task = asyncio.ensure_future(self._answer_server(id, method, params, pending))
        self._questions[id] = task
        task.add_done_callback(lambda _: self._questions.pop(id, None))
        if pending is not None and method == "elicitation/create":
            pending.questions.add(task)

    def _asking(self) -> _Pending | None:
        """The call that a question of the server belongs to.

        A legacy server does not say which: the newest that can ask. None if calls of several sessions wait, because
        the user of one must not be asked for another.
        """
        asking = [one for one in self._pending.values() if one.options.asker is not None]
        sessions = {id(one.options.asker.session) for one in asking if one.options.asker is not None}
        return asking[-1] if len(sessions) == 1 else None

    async def _answer_server(
        self, id: str | int, method: str, params: Mapping[str, Any], pending: _Pending | None
    ) -> None:
        try:
            if method == "ping":
                data = jsonrpc.encode_response(id, {})
            else:
                asker = None if pending is None else pending.options.asker
                result = await self._input(method, params, asker, None if pending is None else pending.limit)
                data = jsonrpc.encode_response(id, result)
        except McpError as error:
            data = jsonrpc.encode_error(id, error.code or jsonrpc.INTERNAL_ERROR, str(error))
        except asyncio.CancelledError:
            if self.error is None and method == "elicitation/create":
                self._spawn(self._reply(jsonrpc.encode_response(id, {"action": "cancel"})))
            raise
        await self._reply(data)

    async def _reply(self, data: bytes) -> None:
        await self._deliver(Outgoing(data))

    async def _inputs(self, result: Mapping[str, Any], options: RequestOptions, limit: CallTimeout) -> dict[str, Any]:
        """Answer the questions of an `input_required` result: the parameters to send the request with again."""
        asked = result.get("inputRequests")
        if isinstance(asked, Mapping) and len(asked) > MAX_SERVER_REQUESTS:
            raise McpError(f"It asked more than {MAX_SERVER_REQUESTS} questions at once.")
        answers: dict[str, Any] = {}
        for key, request in asked.items() if isinstance(asked, Mapping) else ():
            method = request.get("method") if isinstance(request, Mapping) else None
            params = request.get("params") if isinstance(request, Mapping) else None
            given = params if isinstance(params, Mapping) else {}
            answers[str(key)] = await self._input(str(method), given, options.asker, limit)
        more: dict[str, Any] = {"inputResponses": answers} if answers else {}
        if isinstance(result.get("requestState"), str):
            more["requestState"] = result["requestState"]
        if not more:
            raise McpError("It asked for input without a question.")
        return more

    async def _input(
        self, method: str, params: Mapping[str, Any], asker: Asker | None, limit: CallTimeout | None
    ) -> dict[str, Any]:
        if method == "roots/list":
            return {"roots": [{"uri": self._root, "name": self._root.rstrip("/").rpartition("/")[2]}]}
        if method == "elicitation/create":
            if asker is None:
                return {"action": "decline"}
            with ExitStack() as stack:
                if limit is not None:
                    stack.enter_context(limit.paused())
                try:
                    return await asker.elicit(params)
                except Exception:  # the question is a stranger's, and the server must not wait for ever
                    logger.exception("a question of an MCP server could not be asked")
                    return {"action": "cancel"}
        raise McpError(f"tau does not offer {safe_text(method, 100)}.", code=METHOD_NOT_FOUND)

    def _spawn(self, work: Awaitable[Any]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
