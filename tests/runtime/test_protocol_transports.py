"""Every transport: lines in, bytes out, backpressure, and the end of a connection."""

from __future__ import annotations

import asyncio
import fcntl
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from tau.runtime.protocol.line_queue import MAX_QUEUED_BYTES
from tau.runtime.protocol.memory import MemoryTransport
from tau.runtime.protocol.outbox import HIGH_WATER_BYTES, LOW_WATER_BYTES, Outbox
from tau.runtime.protocol.pipes import PipeTransport, PipeWriter
from tau.wire.lines import LineTooLong

if TYPE_CHECKING:
    from tau.runtime.protocol.transport import Transport

WITHIN = 30.0
LINE_LIMIT = 1 << 20


class Peer:
    """The client's end of a transport."""

    transport: Transport

    async def write(self, data: bytes) -> None:
        raise NotImplementedError

    def end_input(self) -> None:
        raise NotImplementedError

    async def read(self) -> bytes:
        raise NotImplementedError

    def leave(self) -> None:
        raise NotImplementedError

    async def line(self) -> bytes:
        data = b""
        while not data.endswith(b"\n"):
            data += await self.read()
        return data


class MemoryPeer(Peer):
    def __init__(self) -> None:
        self.transport = memory = MemoryTransport(LINE_LIMIT)
        self.write, self.read = memory.client.write, memory.client.read  # type: ignore[method-assign]
        self.end_input, self.leave = memory.client.end_input, memory.client.disconnect  # type: ignore[method-assign]


class PipePeer(Peer):
    def __init__(self) -> None:
        self._stdin, self._to = os.pipe()
        self._from, self._stdout = os.pipe()
        self.transport = PipeTransport(self._stdin, self._stdout, LINE_LIMIT)

    async def write(self, data: bytes) -> None:
        await asyncio.to_thread(os.write, self._to, data)

    def end_input(self) -> None:
        os.close(self._to)
        self._to = -1

    async def read(self) -> bytes:
        return await asyncio.to_thread(os.read, self._from, 1 << 16)

    def leave(self) -> None:
        os.close(self._from)
        self._from = -1

    def close(self) -> None:
        for handle in (self._stdin, self._to, self._from, self._stdout):
            with suppress(OSError):
                os.close(handle)


@asynccontextmanager
async def connected(kind: str) -> AsyncIterator[Peer]:
    peer = MemoryPeer() if kind == "memory" else PipePeer()
    try:
        async with asyncio.timeout(WITHIN):
            yield peer
        await peer.transport.close()
    finally:
        if isinstance(peer, PipePeer):
            peer.close()


class CountingLoop(asyncio.SelectorEventLoop):
    timers = 0

    def call_at(self, *args: Any, **named: Any) -> asyncio.TimerHandle:
        self.timers += 1
        return super().call_at(*args, **named)


def play(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        runner.run(story())


TRANSPORTS = pytest.mark.parametrize("kind", ["memory", "pipes"])


def nothing() -> None:
    return


@TRANSPORTS
def test_lines_are_received_until_the_input_ends(kind: str) -> None:
    async def story() -> None:
        async with connected(kind) as peer:
            Outbox(peer.transport, nothing)
            await peer.write(b"one\r\ntw")
            await peer.write(b"o\n\nlast")
            peer.end_input()
            received = [await peer.transport.receive() for _ in range(5)]
            assert received == [b"one", b"two", b"", b"last", None]

    play(story)


@TRANSPORTS
def test_a_line_over_the_limit_is_replaced(kind: str) -> None:
    async def story() -> None:
        async with connected(kind) as peer:
            Outbox(peer.transport, nothing)
            writing = asyncio.ensure_future(peer.write(b"x" * (LINE_LIMIT + 1) + b"\nnext\n"))
            assert await peer.transport.receive() == LineTooLong(LINE_LIMIT)
            assert await peer.transport.receive() == b"next"
            await writing

    play(story)


@TRANSPORTS
def test_lines_are_written_in_order_whatever_their_size(kind: str) -> None:
    async def story() -> None:
        async with connected(kind) as peer:
            outbox = Outbox(peer.transport, nothing)
            lines = [b"a", b"b" * 5000, b"c" * 700_000, b"d"]
            for line in lines:
                outbox.send_line(line)
            outbox.send_large(iter([b"e", b"f" * 300_000, b"g"]), 300_002)
            wanted = b"".join(line + b"\n" for line in [*lines, b"e" + b"f" * 300_000 + b"g"])
            data = b""
            while len(data) < len(wanted):
                data += await peer.read()
            assert data == wanted
            await outbox.drain()
            assert not outbox.busy

    play(story)


@TRANSPORTS
def test_a_producer_waits_while_the_client_does_not_read(kind: str) -> None:
    async def story() -> None:
        async with connected(kind) as peer:
            outbox = Outbox(peer.transport, nothing)
            sent = 0
            while (room := outbox.wait_for_room()) is None:
                outbox.send_line(b"x" * 99_999)
                sent += 100_000
                await asyncio.sleep(0)
            assert outbox.size > HIGH_WATER_BYTES
            waiting = asyncio.ensure_future(room)
            drained = asyncio.ensure_future(outbox.drain())
            read = 0
            while not waiting.done():
                read += len(await peer.read())
                await asyncio.sleep(0)
            assert outbox.size <= LOW_WATER_BYTES and not drained.done()
            while read < sent:
                read += len(await peer.read())
            await drained

    play(story)


@TRANSPORTS
def test_a_client_that_leaves_is_reported_once_and_output_is_discarded(kind: str) -> None:
    async def story() -> None:
        async with connected(kind) as peer:
            lost = list[str]()
            left = asyncio.Event()

            def on_closed() -> None:
                lost.append("lost")
                left.set()

            outbox = Outbox(peer.transport, on_closed)
            outbox.send_line(b"x" * (HIGH_WATER_BYTES + 1))
            room = outbox.wait_for_room()
            assert room is not None
            peer.leave()
            await left.wait()
            await room
            outbox.send_line(b"more")
            await outbox.drain()
            assert (lost, outbox.size, outbox.busy) == (["lost"], 0, False)

    play(story)


@TRANSPORTS
def test_drain_waits_without_polling(kind: str) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, CountingLoop)
        async with connected(kind) as peer:
            outbox = Outbox(peer.transport, nothing)
            outbox.send_line(b"x" * 4_000_000)  # more than the largest buffer of a pipe
            timers = loop.timers
            drained = asyncio.ensure_future(outbox.drain())
            await asyncio.sleep(0)
            assert not drained.done()
            read = 0
            while read < 4_000_001:
                read += len(await peer.read())
            await drained
            assert loop.timers == timers

    play(story)


def test_a_memory_client_waits_while_too_much_input_is_queued() -> None:
    async def story() -> None:
        transport = MemoryTransport()
        line = b"x" * (MAX_QUEUED_BYTES + 1)
        await transport.client.write(line + b"\n")
        second = asyncio.ensure_future(transport.client.write(b"second\n"))
        await asyncio.sleep(0)
        assert not second.done()
        assert await transport.receive() == line
        await asyncio.wait_for(second, WITHIN)
        assert await transport.receive() == b"second"

    play(story)


def test_closed_outboxes_leave_no_thread_and_no_descriptor() -> None:
    def resources() -> tuple[int, int]:
        return threading.active_count(), len(os.listdir("/proc/self/fd"))

    async def story() -> None:
        reader, writer = os.pipe()
        before = resources()
        outboxes = [Outbox(PipeWriter(writer), nothing) for _ in range(20)]
        for outbox in outboxes:
            outbox.send_line(b"hello")
        for outbox in outboxes:
            await outbox.drain()
        for outbox in outboxes:
            await outbox.close()
        while threading.active_count() > before[0]:  # the last instructions of a thread follow its report
            await asyncio.sleep(0)
        now = resources()
        assert all(left <= right for left, right in zip(now, before, strict=True)), (now, before)
        assert os.read(reader, 1000) == b"hello\n" * 20
        os.close(reader)
        os.close(writer)

    play(story)


def test_a_writer_that_is_blocked_ends_with_its_write() -> None:
    def writers() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "tau-stdout"]

    async def story() -> None:
        reader, writer = os.pipe()
        outbox = Outbox(PipeWriter(writer), nothing)
        outbox.send_line(b"x" * 1_000_000)
        await asyncio.sleep(0)
        await outbox.close()
        os.set_blocking(reader, False)
        while writers():
            with suppress(BlockingIOError):
                os.read(reader, 1 << 20)
            await asyncio.sleep(0)
        os.close(reader)
        os.close(writer)

    play(story)


@pytest.mark.skipif(not hasattr(fcntl, "F_GETPIPE_SZ"), reason="only Linux has pipes of other sizes")
def test_the_buffer_of_a_pipe_is_enlarged_for_a_large_batch_only() -> None:
    async def story() -> None:
        stdin, into_stdin = os.pipe()
        from_stdout, stdout = os.pipe()
        before = fcntl.fcntl(stdout, fcntl.F_GETPIPE_SZ)
        transport = PipeTransport(stdin, stdout)
        outbox = Outbox(transport, nothing)
        try:
            outbox.send_line(b"x" * 10_000)
            await outbox.drain()
            assert fcntl.fcntl(stdout, fcntl.F_GETPIPE_SZ) == before
            os.read(from_stdout, 65_536)
            outbox.send_line(b"x" * 200_000)
            await outbox.drain()  # nothing reads: without a larger buffer this would never end
            assert fcntl.fcntl(stdout, fcntl.F_GETPIPE_SZ) > before
        finally:
            await outbox.close()
            for handle in (stdin, into_stdin, from_stdout, stdout):
                os.close(handle)

    play(story)


def test_lines_are_handled_in_the_callback_that_reads_them_and_the_rest_in_order() -> None:
    async def story() -> None:
        async with connected("pipes") as peer:
            Outbox(peer.transport, nothing)
            handled: list[Any] = []

            def all_but_the_last(lines: Sequence[Any]) -> int:
                handled.extend(lines[: max(1, len(lines) - 1)])
                return max(1, len(lines) - 1)

            peer.transport.deliver_to(all_but_the_last)
            waiting = asyncio.ensure_future(peer.transport.receive())
            await asyncio.sleep(0)
            await peer.write(b"one\n")
            while handled != [b"one"]:
                await asyncio.sleep(0)
            assert not waiting.done()
            await peer.write(b"two\nthree\nfour\n")
            assert await waiting == b"four"
            assert handled == [b"one", b"two", b"three"]
            await peer.write(b"no one waits\n")
            assert await peer.transport.receive() == b"no one waits"
            peer.end_input()
            assert await peer.transport.receive() is None

    play(story)


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="only Linux can refuse to block in one write")
def test_a_batch_larger_than_the_room_in_a_pipe_does_not_block_the_loop() -> None:
    async def story() -> None:
        async with connected("pipes") as peer:
            outbox = Outbox(peer.transport, nothing)
            for at in range(8):  # 400 kB, and nothing reads: only the thread may block
                outbox.send_line(b"%d" % at + b"x" * 50_000)
                await asyncio.sleep(0)
            received = b""
            while received.count(b"\n") < 8:
                received += await peer.read()
            assert received == b"".join(b"%d" % at + b"x" * 50_000 + b"\n" for at in range(8))

    play(story)


def test_output_to_a_terminal_which_may_block_any_write_arrives() -> None:
    async def story() -> None:
        stdin, into_stdin = os.pipe()
        terminal, stdout = os.openpty()
        transport = PipeTransport(stdin, stdout)
        outbox = Outbox(transport, nothing)
        try:
            async with asyncio.timeout(WITHIN):
                for line in (b"first", b"second"):
                    outbox.send_line(line)
                    await outbox.drain()
                received = b""
                while received.count(b"\n") < 2:
                    received += await asyncio.to_thread(os.read, terminal, 100)
                assert received.split() == [b"first", b"second"]
        finally:
            await outbox.close()
            for handle in (stdin, into_stdin, terminal, stdout):
                os.close(handle)

    play(story)


@TRANSPORTS
def test_what_is_sent_while_a_batch_is_held_is_written_together(kind: str) -> None:
    async def story() -> None:
        async with connected(kind) as peer:
            outbox = Outbox(peer.transport, nothing)
            assert outbox.hold()
            assert not outbox.hold()  # the first holder flushes
            for line in (b"one", b"two", b"three"):
                outbox.send_line(line)
            outbox.flush()
            assert await peer.read() == b"one\ntwo\nthree\n"
            outbox.send_line(b"four")  # nothing is held any more
            assert await peer.line() == b"four\n"

    play(story)


@TRANSPORTS
def test_a_batch_in_which_nothing_was_sent_blocks_nothing(kind: str) -> None:
    async def story() -> None:
        async with connected(kind) as peer:
            outbox = Outbox(peer.transport, nothing)
            assert outbox.hold()
            outbox.flush()
            assert not outbox.busy
            outbox.send_line(b"one")
            assert await peer.line() == b"one\n"

    play(story)


@pytest.mark.parametrize("size", [10, 1_000_000], ids=["written by the loop", "written by the thread"])
def test_a_record_that_cannot_be_encoded_ends_the_connection_and_does_not_hang(size: int) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"x" * size
        raise ValueError("not readable any more")

    async def story() -> None:
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        lost = asyncio.Event()
        outbox = Outbox(PipeWriter(writer), lost.set)
        outbox.send_large(pieces(), size)
        async with asyncio.timeout(30):
            while not lost.is_set():
                with suppress(BlockingIOError):
                    os.read(reader, 1 << 20)
                await asyncio.sleep(0)
            await outbox.drain()
            await outbox.close()
        os.close(reader)
        os.close(writer)

    play(story)
