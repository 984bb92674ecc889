"""A running agent: calls that wait for their answers, events for whoever listens, and the end of it all.

Lines are dispatched as they are read, in the loop and without tasks. When some
reader's buffer is full, reading stops and the agent waits, unless somebody waits
for an answer: that might be the very reader, and the answer would never arrive.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tau.client.events import Head, RpcEvent, UnknownEvent, read_event
from tau.client.idle import Ask, Idle
from tau.client.pending import Call, Pending
from tau.client.process import Child
from tau.client.replies import BadReply, envelope, read
from tau.client.stream import Events
from tau.errors import CommandError
from tau.records.base import BadRecord, decode, encode, parse
from tau.records.commands import Command, GetState
from tau.records.replies import SessionState
from tau.wire.lines import TooLong

# Answered when the work is done, and that takes what it takes.
SLOW = {
    *("prompt", "steer", "follow_up", "compact", "bash", "abort", "navigate", "export_html"),
    *("new_session", "switch_session", "fork", "clone"),
}
INTERRUPTING = {"abort", "new_session", "switch_session", "fork", "clone"}
ASK_AGAIN = 1.0  # seconds


class Connection:
    """`publish` is called with every event, before the readers get it. `over` when nothing more will be heard.

    Its `child` is to be started, and then it is to be opened.
    """

    def __init__(self, publish: Callable[[RpcEvent], None], *, settles: bool, timeout: float | None) -> None:
        self._publish, self._timeout = publish, timeout
        self.child = Child(self._hear, self._end)
        self.over = False
        self._pending = Pending()
        self._idle = Idle(settles)
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._lines: deque[bytes | TooLong] = deque()
        self._readers: list[weakref.ref[Events]] = []
        self._waiting = 0  # callers that wait for what is still to be read
        self._heard_all = self._stopping = False
        self._flowing = True  # as if: until it is opened

    def open(self) -> None:
        """Whoever should hear the first words is there now."""
        self._flowing = False
        self._flow()

    async def stop(self) -> None:
        politely = self._idle.verdict == "idle" and not self._pending
        self._stopping = True
        self._lines.clear()
        try:
            await self.child.stop(politely=politely)
        finally:
            self._finish()

    # Calls.

    async def call(self, command: Command) -> bytes:
        """The JSON of the response's data, b"" if it has none."""
        self._check()
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        call, line = self._pending.open(command, answer, self._idle.runs)
        seconds = None if call.command in SLOW else self._timeout
        with self._reading():
            try:
                async with asyncio.timeout(seconds) as limit:
                    await self.child.write(line)
                    return await answer
            except TimeoutError:
                if not limit.expired():
                    raise
                raise TimeoutError(f"The agent did not answer {call.command} within {seconds:g} s.") from None
            finally:
                if not answer.cancel() and not answer.cancelled():
                    answer.exception()  # seen, even if nobody waits any more

    def _check(self) -> None:
        if self.over:
            raise self.child.gone()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """While this is held, what the agent says is read, whoever is slow."""
        self._waiting += 1
        self._flow()
        try:
            yield
        finally:
            self._waiting -= 1
            self._flow()

    # Being idle.

    async def until_idle(self) -> None:
        """What the agent says is read meanwhile, whoever is slow."""
        with self._reading():
            await self.watch_idle()

    async def watch_idle(self) -> None:
        """The same, at the pace of the readers."""
        self._check()
        while (verdict := self._idle.verdict) != "idle":
            self._check()
            mark = self._idle.mark
            if isinstance(verdict, Ask):
                state = read(SessionState, await self.call(GetState()), "get_state")
                quiet = not (state.is_streaming or state.is_compacting)
                happened = await self._changed(mark, verdict.quiet if quiet else ASK_AGAIN)
                if quiet and not happened:
                    self._idle.rest()
            else:
                await self._changed(mark, None)

    async def _changed(self, mark: int, seconds: float | None) -> bool:
        """Whether something happened, that matters for being idle, since that mark or in this time."""
        try:
            async with asyncio.timeout(seconds):
                while self._idle.mark == mark and not self.over:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return False
        return True

    # Reading.

    def events(self, limit: int | None) -> Events:
        self._check()
        events = Events(limit, self._flow)
        self._readers.append(weakref.ref(events, self._forget))
        return events

    def _forget(self, reader: weakref.ref[Events]) -> None:
        """Nobody holds it any more, wherever that was noticed: it may be the one that everybody waited for."""
        self._readers.remove(reader)
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._flow)

    def _hear(self, line: bytes | TooLong) -> None:
        if not self._stopping:
            self._lines.append(line)
            self._flow()

    def _end(self) -> None:
        self._heard_all = True
        self._flow()

    def _flow(self) -> None:
        """Dispatch what was read, as far as there is room, and read on if there still is."""
        if self._flowing or self.over:
            return
        self._flowing = True
        try:
            while self._lines and not self._full():
                self._dispatch(self._lines.popleft())
        finally:
            self._flowing = False
        if self._full():
            self.child.pause()
        elif self._heard_all:
            self._finish()
        else:
            self.child.resume()

    def _full(self) -> bool:
        return not self._waiting and not self._stopping and any(reader.full for reader in self._all_readers())

    def _all_readers(self) -> list[Events]:
        return [events for reference in tuple(self._readers) if (events := reference()) is not None]

    def _dispatch(self, line: bytes | TooLong) -> None:
        if isinstance(line, TooLong):
            self._pending.fail_all(BadReply(f"The agent sent a line of more than {line.size_limit} bytes."))
            return
        try:
            head = decode(Head, line, nesting=None)
            if head.type == "response":
                self._respond(line)
            else:
                self._idle.hear(head.type, bool(head.will_retry))
                self._tell(read_event(head.type, line))
        except BadRecord:
            self.child.keep(line + b"\n")  # somebody printed to stdout
        self._news.set()

    def _respond(self, line: bytes) -> None:
        reply, data = envelope(line)
        call = self._pending.close(reply.id, reply.command, reply.success)
        if call is not None and reply.success:
            self._note_success(call, data)
            call.succeed(data)
        elif call is not None:
            call.fail(CommandError(reply.error if isinstance(reply.error, str) else encode(reply.error).decode()))
        elif not (reply.success and self._pending.is_ours(reply.id)):  # pi 0.55 answers a refused prompt twice
            self._idle.refused()
            self._tell(UnknownEvent("response", parse(line, nesting=None)))

    def _note_success(self, call: Call, data: bytes) -> None:
        if call.command == "prompt":
            told: Any = parse(data, nesting=None) if data else None
            handled = isinstance(told, dict) and told.get("disposition") == "handled"
            self._idle.accepted(call.runs, slash=call.slash, handled=handled)
        elif call.command in INTERRUPTING:
            self._idle.interrupted()

    def _tell(self, event: RpcEvent) -> None:
        self._publish(event)
        for reader in self._all_readers():
            reader.push(event)

    def _finish(self) -> None:
        """Nothing more will be heard: tell everybody who waits."""
        if self.over:
            return
        self.over = True
        gone = self.child.gone()
        self._pending.fail_all(gone)
        for reader in self._all_readers():
            reader.finish(None if self._stopping else gone)
        self._news.set()
