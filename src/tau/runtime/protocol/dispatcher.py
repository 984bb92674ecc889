"""Dispatcher: runs the handler of each line and sends its response.

Every line gets exactly one response, unless it is blank or the answer to a dialog. Commands start in the order of
their lines. A command that takes time does not delay the next one, so `abort` can overtake the command that it
aborts. It knows no transport: pipes, sockets and WebSockets share it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from types import CoroutineType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, get_type_hints

from tau.errors import CommandError
from tau.records.base import UNSET, BadRecord, UnsetType, decode
from tau.records.commands import Command, HostTool
from tau.records.messages import Image, Text
from tau.records.replies import Messages
from tau.runtime.protocol.requests import InputLine, InvalidLine, Request, is_blank, parse_dialog_answer, parse_request
from tau.runtime.protocol.responses import response, send_response, unexpected_failure
from tau.runtime.session.operations import Operations
from tau.wire.dialect import Dialect
from tau.wire.dialects import DEFAULT

if TYPE_CHECKING:
    from tau.runtime.protocol.responses import ResponseSink

MAX_CONCURRENT_COMMANDS = 1024
Handler = TypeVar("Handler", bound=Callable[..., Any])


if TYPE_CHECKING:

    class ToolLender(Protocol):
        """The tools that one client offers, and its answers to their calls: runtime/session/host_tools.py."""

        def set_tools(self, tools: Sequence[HostTool]) -> list[str]: ...

        def progress(self, request_id: str, content: str | list[Text | Image]) -> None: ...

        def finish(
            self, request_id: str, content: str | list[Text | Image], *, is_error: bool, details: Any
        ) -> None: ...

        def close(self) -> None: ...


class HandlerTable:
    """The handlers of commands: `handler(session, command)`, and with the request or the client's tools if it asks
    for that.

    A handler returns the `data` of the response or raises CommandError. It may be a coroutine function.
    """

    def __init__(self) -> None:
        self._handlers: dict[type[Command], Callable[..., Any]] = {}
        self._extras: dict[type[Command], Literal["request", "lender"]] = {}  # what else a handler asks for
        # The handlers that need nothing of the line, with the command that they are called with.
        self.without_fields: dict[type[Command], tuple[Callable[..., Any], Command]] = {}

    def __getitem__(self, kind: type[Command]) -> Callable[..., Any]:
        return self._handlers[kind]

    def __iter__(self) -> Iterator[type[Command]]:
        return iter(self._handlers)

    def reply_type(self, kind: type[Command]) -> Any:
        """The type of the `data` of the response. Parameters may have types that only type checkers know."""
        handler = self._handlers[kind]
        returned = SimpleNamespace(__annotations__={"return": handler.__annotations__["return"]})
        return get_type_hints(returned, handler.__globals__)["return"]

    def handles(
        self, kind: type[Command], *, with_request: bool = False, with_lender: bool = False
    ) -> Callable[[Handler], Handler]:
        """Decorator of the handler of a command."""

        def register(handler: Handler) -> Handler:
            self._handlers[kind] = handler
            if with_request:
                self._extras[kind] = "request"
            elif with_lender:
                self._extras[kind] = "lender"
            elif not kind.__struct_fields__:
                self.without_fields[kind] = handler, kind()
            return handler

        return register

    def call(self, session: Operations, command: Any, request: Request, lender: Callable[[], ToolLender]) -> Any:
        handler, extra = self._handlers[request.kind], self._extras.get(request.kind)
        if extra is None:
            return handler(session, command)
        return handler(session, command, lender() if extra == "lender" else request)


class Dispatcher:
    """Handles the lines of one client for one session. `on_first_response` is called after the first response.

    `new_lender` is called when the client first offers tools; without it, the client cannot.
    """

    def __init__(
        self,
        session: Operations,
        handlers: HandlerTable,
        sink: ResponseSink,
        dialect: Dialect = DEFAULT,
        on_first_response: Callable[[], None] | None = None,
        new_lender: Callable[[], ToolLender] | None = None,
    ) -> None:
        self._session = session
        self._handlers = handlers
        self._without_fields = handlers.without_fields
        self._sink = sink
        self._dialect = dialect
        self._on_first_response = on_first_response
        self._new_lender = new_lender
        self.lender: ToolLender | None = None  # the tools of the client, once it has offered some
        self._tasks: set[asyncio.Task[None]] = set()

    def handle(self, line: InputLine) -> bool:
        """Handle one line. Returns True if it started a task."""
        request = None
        try:
            request = parse_request(line, self._dialect)
            if request is None:
                self._answer_dialog(line)
                return False
            simple = self._without_fields.get(request.kind)
            if simple is None:
                reply = self._call_handler(request)
            else:
                if self._tasks:
                    self._require_capacity()
                handler, command = simple
                reply = handler(self._session, command)
        except Exception as error:
            self._respond_with_error(line, request, error)
            return False
        if type(reply) is CoroutineType:
            task = asyncio.create_task(self._finish(request, reply))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return True
        form = self._dialect.replies.get(request.kind)
        data = reply if form is None else form.make(reply)
        if type(data) is Messages or not self._dialect.responses:
            send_response(self._sink, self._dialect, request.id, request.name, data)
        else:  # as `send_response` does, without the call: clients may ask for the state often
            self._sink.send_line(response(request.id, request.name, data))
        if self._on_first_response is not None:
            self._first_response_sent()
        return False

    @property
    def busy(self) -> bool:
        """True while a command that was started has no response."""
        return bool(self._tasks)

    async def wait(self) -> None:
        """Wait until every command that was started has its response."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _answer_dialog(self, line: InputLine) -> None:
        """An answer gets no response, unless it cannot be read. Whatever is wrong with it, the next line is handled."""
        assert isinstance(line, bytes)
        try:
            self._session.answer_dialog(parse_dialog_answer(line))
        except InvalidLine as invalid:
            self._respond(invalid.id, invalid.command, error=str(invalid))
        except Exception as error:
            self._respond_with_bug(b"", "extension_ui_response", error)

    def _call_handler(self, request: Request) -> Any:
        command = self._dialect.fill_defaults(decode(request.kind, request.body))
        self._require_capacity()
        return self._handlers.call(self._session, command, request, self._require_lender)

    def _require_capacity(self) -> None:
        if len(self._tasks) >= MAX_CONCURRENT_COMMANDS:
            raise CommandError("Too many commands are under way. Try again later.")

    def _require_lender(self) -> ToolLender:
        if self.lender is None:
            if self._new_lender is None:
                raise CommandError("Tools cannot be offered on this connection.")
            self.lender = self._new_lender()
        return self.lender

    async def _finish(self, request: Request, reply: Coroutine[Any, Any, Any]) -> None:
        try:
            data = self._dialect.reply_data(request.kind, await reply)
        except CommandError as error:
            self._respond(request.id, request.name, error=str(error))
        except Exception as error:
            self._respond_with_bug(request.id, request.name, error)
        else:
            self._respond(request.id, request.name, data=data)

    def _respond_with_error(self, line: InputLine, request: Request | None, error: Exception) -> None:
        if isinstance(error, InvalidLine):
            if not is_blank(line):
                self._respond(error.id, error.command, error=str(error))
        elif request is None:
            self._respond_with_bug(b"", "parse", error)
        elif isinstance(error, CommandError | BadRecord):
            self._respond(request.id, request.name, error=str(error))
        else:
            self._respond_with_bug(request.id, request.name, error)

    def _respond_with_bug(self, id: bytes, name: str, error: Exception) -> None:
        self._respond(id, name, error=unexpected_failure(f"command {name}", error))

    def _respond(self, id: bytes, name: str, *, data: Any = UNSET, error: str | UnsetType = UNSET) -> None:
        send_response(self._sink, self._dialect, id, name, data, error)
        if self._on_first_response is not None:
            self._first_response_sent()

    def _first_response_sent(self) -> None:
        assert self._on_first_response is not None
        notify, self._on_first_response = self._on_first_response, None
        notify()
