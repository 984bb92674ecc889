"""The client as sessions see it: updates and requests to it, and its answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from itertools import count
from typing import Any, Protocol

from tau.acp.requests import Capabilities
from tau.core.agent.draft import Update
from tau.records.base import encode
from tau.wire.jsonrpc import ErrorResponse, Id, Response, encode_notification, encode_request


class LineSink(Protocol):
    """Takes lines, in order. An Outbox is one."""

    def send_line(self, line: bytes) -> None: ...

    def add_update(self, update: Update) -> None:
        """Take an update that later ones may be merged into until it is written."""

    def wait_for_room(self) -> Awaitable[None] | None: ...


class Client:
    """`capabilities` are known after `initialize`."""

    def __init__(self, sink: LineSink) -> None:
        self._sink = sink
        self._ids = count(1)
        self._waiting: dict[Id, asyncio.Future[Any]] = {}
        self._gone = False
        self.capabilities = Capabilities()

    def send(self, line: bytes) -> None:
        self._sink.send_line(line)

    def send_chunk(self, chunk: TextChunk) -> None:
        self._sink.add_update(chunk)

    def wait_for_room(self) -> Awaitable[None] | None:
        """An awaitable if the client does not read fast enough."""
        return self._sink.wait_for_room()

    def notify(self, method: str, params: Any) -> None:
        self.send(encode_notification(method, params))

    def request(self, method: str, params: Any) -> ClientRequest:
        """Ask the client. A client that is gone answers nothing: the request is cancelled."""
        id = f"tau-{next(self._ids)}"  # strings, so that they never look like the ids of the client
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._gone:
            answer.cancel()
        else:
            self._waiting[id] = answer
            self.send(encode_request(id, method, params))
        return ClientRequest(self, id, answer)

    def answer(self, message: Response | ErrorResponse) -> None:
        """The client answered. An answer to no request is ignored."""
        waiting = self._waiting.pop(message.id, None) if message.id is not None else None
        if waiting is not None and not waiting.done():
            waiting.set_result(message.result if isinstance(message, Response) else None)

    def withdraw(self, id: Id) -> None:
        """Tell the client that an answer is no longer wanted."""
        waiting = self._waiting.pop(id, None)
        if waiting is not None and not waiting.done():
            waiting.cancel()
            self.notify("$/cancel_request", {"requestId": id})

    def leave(self) -> None:
        """The client is gone, or closed its output."""
        self._gone = True
        for waiting in self._waiting.values():
            waiting.cancel()
        self._waiting.clear()


class ClientRequest:
    """A request to the client that may still be open. `answer` has its result; None if it is an error."""

    def __init__(self, client: Client, id: Id, answer: asyncio.Future[Any]) -> None:
        self._client = client
        self._id = id
        self.answer = answer

    def withdraw(self) -> None:
        self._client.withdraw(self._id)


class TextChunk(Update):
    """A piece of an answer. The next piece is merged into it as long as it is not written."""

    __slots__ = ("_head", "_texts")

    def __init__(self, head: bytes, text: str) -> None:
        self._head = head
        self._texts = [text]
        self.weight = len(text)

    def absorb(self, later: Update) -> bool:
        if not isinstance(later, TextChunk) or later._head != self._head:
            return False
        self._texts += later._texts
        self.weight += later.weight
        return True

    def wire_json(self, **_: bool) -> bytes:
        return b"%b%b}}}}" % (self._head, encode("".join(self._texts)))


class UpdateWriter:
    """Writes the updates of one session. Text of answers, which is most of them, is encoded without records."""

    def __init__(self, client: Client, session_id: str) -> None:
        self._client = client
        head = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%b,"update":' % encode(session_id)
        self._head = head
        self._message_id = ""
        self._chunk_heads: dict[bytes, bytes] = {}  # of the current message, by kind
        self._held: list[bytes | TextChunk] | None = []

    def send(self, update: Any) -> None:
        self._write(b"%b%b}}" % (self._head, encode(update)))

    def send_text(self, kind: bytes, message_id: str, text: str) -> None:
        """A piece of the answer (`kind` is b"message") or of its thoughts (b"thought")."""
        if message_id != self._message_id:
            self._message_id, self._chunk_heads = message_id, {}
        head = self._chunk_heads.get(kind)
        if head is None:
            body = b'{"sessionUpdate":"agent_%b_chunk","messageId":%b,"content":{"type":"text","text":'
            head = self._chunk_heads[kind] = self._head + body % (kind, encode(message_id))
        self._write(TextChunk(head, text))

    def _write(self, item: bytes | TextChunk) -> None:
        if self._held is not None:
            self._held.append(item)
        elif isinstance(item, TextChunk):
            self._client.send_chunk(item)
        else:
            self._client.send(item)

    @property
    def is_held(self) -> bool:
        return self._held is not None

    def release(self) -> None:
        """Send what was held back: a client gets no update of a session before the response that opens it."""
        held, self._held = self._held or [], None
        for item in held:
            self._write(item)
