"""`tau serve` under load, over WebSocket: the figures that docs/serve.md has.

    python tests/long/serve_load.py idle 1000       sessions with a client each: memory, CPU at rest, get_state
    python tests/long/serve_load.py burst 100       one session to many clients, as fast as it can: CPU per delivery
    python tests/long/serve_load.py paced 100       the same at 50 pieces per second
    python tests/long/serve_load.py streams 100     sessions that stream 50 pieces per second each: delay, CPU
    python tests/long/serve_load.py stalled 200     half of the clients of a session stop reading: memory, delay
    python tests/long/serve_load.py slow            2,000 half heads and 64 slow bodies: is a client served meanwhile?

Without arguments, all of them. Linux only: memory and CPU are read from /proc.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import contextlib
import itertools

from serve.serve_process import ServeProcess

TICKS = os.sysconf("SC_CLK_TCK")
WITHIN = 300.0
BURST, PER_SECOND = 150, 45
Json = dict[str, Any]


class LoadClient(asyncio.Protocol):
    """A WebSocket client that counts records and parses only those that it is asked to."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._fragments: list[bytes] = []
        self._open = False
        self._waiting: dict[bytes, asyncio.Future[bytes]] = {}
        self.records = 0
        self.received = 0
        self.on_message: Callable[[bytes], None] = lambda data: None
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._open:
            head, end, rest = bytes(self._buffer).partition(b"\r\n\r\n")
            if not end:
                return
            assert b" 101 " in head, head
            self._open, self._buffer = True, bytearray(rest)
            self._waiting.pop(b"open").set_result(head)
        while (message := self._message()) is not None:
            self.received += len(message)
            self.records += message.count(b"\n") + 1
            self.on_message(message)
            for key in [key for key in self._waiting if key in message]:
                self._waiting.pop(key).set_result(message)

    def _message(self) -> bytes | None:
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        size, start = buffer[1] & 127, 2
        if size == 126:
            size, start = int.from_bytes(buffer[2:4], "big"), 4
        elif size == 127:
            size, start = int.from_bytes(buffer[2:10], "big"), 10
        if len(buffer) < start + size:
            return None
        opcode, last, data = buffer[0] & 15, buffer[0] & 128, bytes(buffer[start : start + size])
        del buffer[: start + size]
        if opcode == 9:
            self._frame(0x8A, data)
            return self._message()
        if opcode > 1:
            return None
        self._fragments.append(data)
        if not last:
            return self._message()
        data = b"".join(self._fragments)
        self._fragments.clear()
        return data

    def _frame(self, first: int, data: bytes) -> None:
        size = len(data)
        length = bytes((0x80 | size,)) if size < 126 else b"\xfe" + size.to_bytes(2, "big")
        self.transport.write(bytes((first,)) + length + bytes(4) + data)  # a mask of zeros

    def send(self, record: Json) -> None:
        self._frame(0x81, json.dumps(record).encode())

    async def wait(self, text: bytes) -> bytes:
        """The next message that contains a text."""
        self._waiting[text] = future = asyncio.get_running_loop().create_future()
        async with asyncio.timeout(WITHIN):
            return await future

    async def ask(self, id: str, type: str, **fields: Any) -> Json:
        answer = asyncio.ensure_future(self.wait(f'"id":"{id}"'.encode()))
        await asyncio.sleep(0)
        self.send({"id": id, "type": type, **fields})
        lines = (await answer).split(b"\n")
        found: Json = json.loads(next(line for line in lines if f'"id":"{id}"'.encode() in line))
        assert found["success"], found
        return dict(found.get("data") or {})


async def connect(server: ServeProcess) -> LoadClient:
    _, client = await asyncio.get_running_loop().create_connection(LoadClient, "127.0.0.1", server.port)
    opened = asyncio.ensure_future(client.wait(b"open"))
    await asyncio.sleep(0)
    client.transport.write(
        f"GET /v1/ws HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        f"Sec-WebSocket-Protocol: tau.v1\r\nAuthorization: Bearer {server.token}\r\n\r\n".encode()
    )
    await opened
    return client


async def attached(server: ServeProcess, session: str | None = None, **hello: Any) -> tuple[LoadClient, str]:
    """A client with a session: a given one, or a new one."""
    client = await connect(server)
    if session is None:
        await client.ask("h", "hello", version=1, dialect="1.5", numbers=True, **hello)
        session = (await client.ask("o", "open_session", memory=True))["session"]
    else:
        await client.ask("h", "hello", version=1, dialect="1.5", numbers=True, session=session, **hello)
    return client, session


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory_mb(pid: int) -> float:
    """The resident memory of this process that it does not share with files: what a session adds."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def show(name: str, value: float, limit: float, unit: str) -> bool:
    print(f"{'ok  ' if value <= limit else 'OVER'} {name}: {value:.3g} {unit} (at most {limit:g})", flush=True)
    return value <= limit


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else 0.0


def pieces(count: int, size: int, delay_ms: int = 0) -> Json:
    return {"blocks": [{"text": ["x" * size]}], "repeat": count, "delayMs": delay_ms}


async def idle(folder: Path, count: int, rest_s: float = 60.0) -> bool:
    with ServeProcess(folder, "--max-live", str(count + 10)) as server:
        pid = server.process.pid
        before = memory_mb(pid)
        clients = []
        for number in range(count):
            clients.append(await attached(server))
            if number > BURST:
                await asyncio.sleep(1 / PER_SECOND)  # requests of one token have a rate
        await asyncio.sleep(1)
        used, began = memory_mb(pid), cpu_s(pid)
        await asyncio.sleep(rest_s)
        at_rest = (cpu_s(pid) - began) / rest_s * 100
        delays, began = [], cpu_s(pid)
        for client, session in clients:
            start = time.perf_counter()
            await client.ask("s", "get_state", session=session)
            delays.append((time.perf_counter() - start) * 1000)
        each = (cpu_s(pid) - began) / count * 1000
        print(f"     memory before: {before:.1f} MB")
        print(f"     get_state: median {percentile(delays, 0.5):.2f} ms, {each:.2f} ms of CPU", flush=True)
        return all(
            [
                show(f"memory with {count} sessions and clients", used, 150, "MB"),
                show("CPU at rest", at_rest, 0.5, "%"),
                show("slowest get_state", max(delays), 5, "ms"),
            ]
        )


async def fan_out(folder: Path, count: int, number: int, delay_ms: int, limit_us: float) -> bool:
    """One session to many clients."""
    with ServeProcess(folder, answers=(pieces(number, 20, delay_ms),)) as server:
        pid = server.process.pid
        first, session = await attached(server)
        clients = [first, *[(await attached(server, session))[0] for _ in range(count - 1)]]
        await asyncio.sleep(0.5)
        for client in clients:
            client.records = client.received = 0
        ends = [asyncio.ensure_future(client.wait(b'"agent_settled"')) for client in clients]
        began = cpu_s(pid)
        await first.ask("p", "prompt", session=session, message="go")
        await asyncio.gather(*ends)
        used = cpu_s(pid) - began
        delivered = number * count
        records = sum(client.records for client in clients)
        print(f"     {delivered} deliveries in {records} records, {used:.2f} s of CPU")
        name = f"CPU for a delivery to {count} clients" + (f", {1000 // delay_ms} per second" if delay_ms else "")
        return show(name, used / delivered * 1e6, limit_us, "µs")


async def streams(folder: Path, count: int, number: int = 500) -> bool:
    """The delay of a piece is measured against the pace of its stream: the earliest piece sets it."""
    with ServeProcess(folder, answers=(pieces(number, 20, 20),)) as server:
        pid = server.process.pid
        clients = [await attached(server) for _ in range(count)]
        times: list[list[float]] = [[] for _ in clients]
        for (client, _), seen in zip(clients, times, strict=True):
            client.on_message = lambda data, seen=seen: seen.extend(  # type: ignore[misc]
                [time.perf_counter()] * data.count(b'"text_delta"')
            )
        ends = [asyncio.ensure_future(client.wait(b'"agent_settled"')) for client, _ in clients]
        start, began = time.perf_counter(), cpu_s(pid)
        for client, session in clients:
            client.send({"id": "p", "type": "prompt", "session": session, "message": "go"})
        await asyncio.gather(*ends)
        elapsed, used = time.perf_counter() - start, cpu_s(pid) - began
        gaps = [(b - a) * 1000 for seen in times for a, b in itertools.pairwise(seen)]
        late = [max(0.0, gap - 20) for gap in gaps]
        print(f"     {len(gaps)} pieces in {elapsed:.1f} s; median gap {percentile(gaps, 0.5):.1f} ms")
        return all(
            [
                show(f"p99 of the delay with {count} streams", percentile(late, 0.99), 100, "ms"),
                show("cores", used / elapsed, 1, ""),
            ]
        )


async def stalled(folder: Path, count: int, number: int = 1000) -> bool:
    """Half of the clients stop reading while pieces of 1 kB are streamed."""
    results: dict[bool, tuple[float, float, float]] = {}
    for stops in (False, True):
        with ServeProcess(folder / str(stops), answers=(pieces(number, 1000, 2),)) as server:
            pid = server.process.pid
            first, session = await attached(server)
            clients = [first, *[(await attached(server, session))[0] for _ in range(count // 2 - 1)]]
            others = [(await attached(server, session))[0] for _ in range(count // 2)]
            await asyncio.sleep(0.5)
            before = memory_mb(pid)
            if stops:
                for client in others:
                    client.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
                    client.transport.pause_reading()
            seen: list[float] = []
            first.on_message = lambda data, seen=seen: seen.append(time.perf_counter())  # type: ignore[misc]
            ends = [asyncio.ensure_future(client.wait(b'"agent_settled"')) for client in clients]
            start, most = time.perf_counter(), 0.0
            await first.ask("p", "prompt", session=session, message="go")
            while not all(end.done() for end in ends):
                await asyncio.sleep(0.25)
                most = max(most, memory_mb(pid))
            await asyncio.gather(*ends)
            gaps = [(b - a) * 1000 for a, b in itertools.pairwise(seen)]
            results[stops] = (time.perf_counter() - start, percentile(gaps, 0.99), most - before)
            if stops:
                again = [asyncio.ensure_future(client.wait(b'"agent_settled"')) for client in others]
                snapshots = [asyncio.ensure_future(client.wait(b'"snapshot"')) for client in others]
                for client in others:
                    client.transport.resume_reading()
                done, _ = await asyncio.wait([*again, *snapshots], timeout=60)
                right = sum(a in done or b in done for a, b in zip(again, snapshots, strict=True))
                print(f"     {right} of {len(others)} stalled clients caught up")
    (time_a, p99_a, grown_a), (time_b, p99_b, grown_b) = results[False], results[True]
    print(
        f"     without: {time_a:.1f} s, p99 {p99_a:.1f} ms, +{grown_a:.1f} MB; with: {time_b:.1f} s, p99 {p99_b:.1f} ms"
    )
    return all(
        [
            show("memory for a stalled client", max(0.0, grown_b - grown_a) * 1024 / (count / 2), 300, "KiB"),
            show("time of the run against one without stalled clients", time_b / time_a, 1.2, "times"),
            show("p99 of the others against a run without", p99_b / max(p99_a, 1.0), 1.2, "times"),
        ]
    )


async def slow(folder: Path, heads: int = 2000, bodies: int = 64) -> bool:
    """Connections that never finish what they send, while a client with a token is served."""
    with ServeProcess(folder) as server:
        half = b"POST /v1/sessions HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % server.port
        whole = half + b"Authorization: Bearer %b\r\n" % server.token.encode()
        whole += b"Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{"
        start = time.perf_counter()
        opened = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(heads)]
        opened += [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(bodies)]
        for number, (_, writer) in enumerate(opened):
            writer.write(half if number < heads else whole)
        all_opened = time.perf_counter()
        delays = []
        for _ in range(20):
            began = time.perf_counter()
            answer = await asyncio.to_thread(server.ask, "GET", "/v1/sessions?live")
            assert answer.status == 200, answer
            delays.append((time.perf_counter() - began) * 1000)
        ends = await asyncio.gather(*(_closed(reader) for reader, _ in opened))
        print(f"     opened in {all_opened - start:.1f} s; closed after {max(ends) - all_opened:.1f} s")
        for _, writer in opened:
            writer.close()
        return all(
            [
                show("slowest request of a client with a token", max(delays), 100, "ms"),
                show("time until the last one is closed", max(ends) - all_opened, 12, "s"),
            ]
        )


async def _closed(reader: asyncio.StreamReader) -> float:
    with contextlib.suppress(OSError, TimeoutError):
        await asyncio.wait_for(reader.read(), 60)
    return time.perf_counter()


async def measure(name: str, count: int | None) -> bool:
    print(f"{name}:", flush=True)
    with tempfile.TemporaryDirectory(prefix="tau-load-") as place:
        folder = Path(place)
        match name:
            case "idle":
                return await idle(folder, count or 1000)
            case "burst":
                return await fan_out(folder, count or 100, 20_000, 0, 1.0)
            case "paced":
                return await fan_out(folder, count or 100, 500, 20, 25.0)
            case "streams":
                return await streams(folder, count or 100)
            case "stalled":
                return await stalled(folder, count or 200)
            case "slow":
                return await slow(folder)
    raise SystemExit(__doc__)


def main(arguments: list[str]) -> int:
    names = arguments[:1] or ["idle", "burst", "paced", "streams", "stalled", "slow"]
    count = int(arguments[1]) if len(arguments) > 1 else None
    return 0 if all([asyncio.run(measure(name, count)) for name in names]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
