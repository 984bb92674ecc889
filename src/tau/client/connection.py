"""The connection to a running agent: pending calls, event readers, idle detection, and its end.

Lines are dispatched as they are read, in the event loop and without tasks. When the buffer of a reader is full,
reading stops and the agent waits, except while a call waits for its response: the caller may be that very reader, and
the response would never arrive.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tau.client.events import LineHead, RpcEvent, UnknownEvent, read_event
from tau.client.idle import AskState, IdleDetector
from tau.client.line import MakeLine
from tau.client.pending import PendingRequest, PendingRequests
from tau.client.replies import BadReply, envelope, read
from tau.client.stream import Events
from tau.errors import CommandError
from tau.records.base import BadRecord, decode, encode, parse
from tau.records.commands import Command, GetState
from tau.records.host_events import Snapshot
from tau.records.replies import SessionState
from tau.wire.lines import LineTooLong

# Answered when the work is done, so no timeout applies.
SLOW_COMMANDS = set(
    """
    prompt steer follow_up compact bash abort navigate export_html new_session switch_session fork clone
    """.split()
)
INTERRUPTING_COMMANDS = {"abort", "new_session", "switch_session", "fork", "clone"}
STATE_POLL_S = 1.0
# Called with the id of a command before it is sent: events such as bash_execution_update carry it.
noted_id: ContextVar[Callable[[str], None] | None] = ContextVar("noted_id", default=None)


@contextmanager
def noted_ids(note: Callable[[str], None]) -> Iterator[None]:
    """Call `note` with the ids of the commands that are sent in this block."""
    token = noted_id.set(note)
    try:
        yield
    finally:
        noted_id.reset(token)


class Connection:
    """Start `line`, then call `open`. `publish` is called with every event before the readers receive it.

    `closed` is true when nothing more will be received.
    """

    def __init__(
        self, make_line: MakeLine, publish: Callable[[RpcEvent], None], *, settles: bool, timeout: float | None
    ) -> None:
        self._publish, self._timeout = publish, timeout
        self.line = make_line(self._on_line, self._on_end)
        self.closed = False
        self._pending = PendingRequests()
        self._idle = IdleDetector(settles)
        self._state_changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._lines: deque[bytes | LineTooLong] = deque()
        self._readers: list[weakref.ref[Events]] = []
        self._blocked_callers = 0  # callers that wait for a line that has not been read yet
        self._end_of_output = self._stopping = False
        self._pumping = True  # nothing is dispatched before open()

    def open(self) -> None:
        """Start dispatching. Everything that should receive the first events must be subscribed by now."""
        self._pumping = False
        self._pump()

    async def stop(self) -> None:
        gracefully = self._idle.verdict == "idle" and not self._pending
        self._stopping = True
        self._lines.clear()
        try:
            await self.line.stop(gracefully=gracefully)
        finally:
            self._finish()

    # Calls.

    async def call(self, command: Command) -> bytes:
        """Send a command. Returns the JSON of the response's data, b"" if it has none."""
        self._check_open()
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        call, line = self._pending.register(command, answer, self._idle.runs)
        if (note := noted_id.get()) is not None:
            note(call.id)
        seconds = None if call.command in SLOW_COMMANDS else self._timeout
        with self._keep_reading():
            try:
                async with asyncio.timeout(seconds) as limit:
                    await self.line.write(line)
                    return await answer
            except TimeoutError:
                if not limit.expired():
                    raise
                raise TimeoutError(f"The agent did not answer {call.command} within {seconds:g} s.") from None
            finally:
                if not answer.cancel() and not answer.cancelled():
                    answer.exception()  # mark it as retrieved, even if the caller was cancelled

    def _check_open(self) -> None:
        if self.closed or self._stopping:
            raise self.line.gone_error()

    @contextmanager
    def _keep_reading(self) -> Iterator[None]:
        """While this is held, output of the agent is read even if a reader's buffer is full."""
        self._blocked_callers += 1
        self._pump()
        try:
            yield
        finally:
            self._blocked_callers -= 1
            self._pump()

    # Idle detection.

    async def wait_until_idle(self) -> None:
        """Wait until the agent is idle. Output is read even if a reader's buffer is full."""
        with self._keep_reading():
            await self.wait_until_idle_at_reader_pace()

    async def wait_until_idle_at_reader_pace(self) -> None:
        """Like `wait_until_idle`, but at the pace of the readers."""
        self._check_open()
        while (verdict := self._idle.verdict) != "idle":
            self._check_open()
            mark = self._idle.mark
            if isinstance(verdict, AskState):
                state = read(SessionState, await self.call(GetState()), "get_state")
                quiet = not (state.is_streaming or state.is_compacting)
                changed = await self._wait_for_change(mark, verdict.quiet if quiet else STATE_POLL_S)
                if quiet and not changed:
                    self._idle.confirm_idle()
            else:
                await self._wait_for_change(mark, None)

    async def _wait_for_change(self, mark: int, seconds: float | None) -> bool:
        """Return True if the idle state changed since `mark`, or changes within `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                while self._idle.mark == mark and not self.closed:
                    self._state_changed.clear()
                    await self._state_changed.wait()
        except TimeoutError:
            return False
        return True

    # Reading.

    def events(self, limit: int | None) -> Events:
        self._check_open()
        events = Events(limit, self._pump)
        self._readers.append(weakref.ref(events, self._remove_reader))
        return events

    def _remove_reader(self, reader: weakref.ref[Events]) -> None:
        """Called when a reader is garbage-collected, in any thread. It may have been the one whose full buffer
        stopped reading.
        """
        self._readers.remove(reader)
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._pump)

    def _on_line(self, line: bytes | LineTooLong) -> None:
        if not self._stopping:
            self._lines.append(line)
            self._pump()

    def _on_end(self) -> None:
        self._end_of_output = True
        self._pump()

    def _pump(self) -> None:
        """Dispatch the lines that were read while the readers have room, then resume or pause reading."""
        if self._pumping or self.closed:
            return
        self._pumping = True
        try:
            while self._lines and not self._full():
                self._dispatch(self._lines.popleft())
        finally:
            self._pumping = False
        if self._full():
            self.line.pause()
        elif self._end_of_output:
            self._finish()
        else:
            self.line.resume()

    def _full(self) -> bool:
        return not self._blocked_callers and not self._stopping and any(reader.full for reader in self._all_readers())

    def _all_readers(self) -> list[Events]:
        return [events for reference in tuple(self._readers) if (events := reference()) is not None]

    def _dispatch(self, line: bytes | LineTooLong) -> None:
        if isinstance(line, LineTooLong):
            self._pending.fail_all(BadReply(f"The agent sent a line of more than {line.size_limit} bytes."))
            return
        try:
            head = decode(LineHead, line, nesting=None)
            if head.type == "response":
                self._respond(line)
            else:
                event = read_event(head.type, line)
                if isinstance(event, Snapshot):
                    self._idle.on_snapshot(active=event.state.is_streaming or event.state.is_compacting)
                else:
                    self._idle.on_event(head.type, bool(head.will_retry))
                self._publish_event(event)
        except BadRecord:
            self.line.append_stderr(line + b"\n")  # not a record: something printed to stdout
        self._state_changed.set()

    def _respond(self, line: bytes) -> None:
        reply, data = envelope(line)
        call = self._pending.resolve(reply.id, reply.command, reply.success)
        if call is not None and reply.success:
            self._record_success(call, data)
            call.succeed(data)
        elif call is not None:
            call.fail(CommandError(reply.error if isinstance(reply.error, str) else encode(reply.error).decode()))
        elif not (reply.success and self._pending.was_issued(reply.id)):  # pi 0.55 responds twice to a rejected prompt
            self._idle.on_prompt_rejected()
            self._publish_event(UnknownEvent("response", parse(line, nesting=None)))

    def _record_success(self, call: PendingRequest, data: bytes) -> None:
        if call.command == "prompt":
            reply: Any = parse(data, nesting=None) if data else None
            handled = isinstance(reply, dict) and reply.get("disposition") == "handled"
            self._idle.on_prompt_accepted(call.runs, slash=call.slash, handled=handled)
        elif call.command in INTERRUPTING_COMMANDS:
            self._idle.on_interrupted()

    def _publish_event(self, event: RpcEvent) -> None:
        self._publish(event)
        for reader in self._all_readers():
            reader.push(event)

    def _finish(self) -> None:
        """Nothing more will be received: fail the pending calls and end the readers."""
        if self.closed:
            return
        self.closed = True
        gone = self.line.gone_error()
        self._pending.fail_all(gone)
        for reader in self._all_readers():
            reader.finish(None if self._stopping else gone)
        self._state_changed.set()
