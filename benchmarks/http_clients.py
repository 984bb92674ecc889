"""Which HTTP library tau stands on, decided by the whole program: `python benchmarks/http_clients.py`.

tau in RPC mode is started afresh, given a prompt, and answered by a server on
this machine that streams as the Anthropic API does. The transports below
are all that differs. Needs the libraries that tau does not use: pip install httpx2 aiohttp.

    first text       from the start of the process to the first text_delta, asked at once
    warmed           the same from the prompt on, asked half a second after the start
    a piece          processor time of a long answer less that of a short one, per piece
    memory           the most the process ever had, at the end of the long answer

With --tls the server has a certificate that openssl makes for it, which the
libraries must find by SSL_CERT_FILE. What was decided, and the numbers:
docs/decisions/0005-http-client.md and 0007-own-connections.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from msgspec.structs import force_setattr

from tau.cli.flags import parse
from tau.cli.session_options import create_factory
from tau.llm.http import Http
from tau.llm.types import Request
from tau.records.base import encode
from tau.rpc.stdio import serve

PIECE = "word, "
HEADERS = {"content-type": "application/json", "accept": "text/event-stream", "accept-encoding": "identity"}
GET_STATE = b'{"type":"get_state"}\n'
PROMPT = b'{"type":"prompt","message":"go"}\n'
CLIENTS = ("httpx2", "aiohttp", "tau")


# Two transports, as small as they can be; the third is tau's own.


class Httpx2:
    def __init__(self) -> None:
        self._client: Any = None
        self._context: Any = None

    def warm(self) -> None:
        import httpx2

        self._context = httpx2.create_ssl_context()

    async def post(self, request: Request) -> AsyncGenerator[bytes, None]:
        import httpx2

        if self._client is None:
            verify = self._context or httpx2.create_ssl_context()
            self._client = httpx2.AsyncClient(timeout=httpx2.Timeout(120, connect=30), verify=verify)
        headers = {**HEADERS, **request.headers}
        async with self._client.stream("POST", request.url, content=encode(request.body), headers=headers) as response:
            async for portion in response.aiter_raw():
                yield portion


class Aiohttp:
    def __init__(self) -> None:
        self._session: Any = None
        self._context: Any = None

    def warm(self) -> None:
        import aiohttp  # noqa: F401

        self._context = ssl.create_default_context()

    async def post(self, request: Request) -> AsyncGenerator[bytes, None]:
        import aiohttp

        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=120)
            connector = aiohttp.TCPConnector(ssl=self._context or ssl.create_default_context())
            self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=True)
        headers = {**HEADERS, **request.headers}
        async with self._session.post(request.url, data=encode(request.body), headers=headers) as response:
            async for portion in response.content.iter_any():
                yield portion


def rpc(client: str) -> None:
    """RPC mode with this transport."""
    given = parse(["--mode", "rpc", "--provider", "bench", "--model", "m"])
    read = create_factory(given)

    def open_session(outbox: Any) -> Any:
        session, machine, _ = read.create(outbox)
        transport = {"httpx2": Httpx2, "aiohttp": Aiohttp, "tau": Http}[client]()
        force_setattr(session.services, "transport", transport)
        return session, machine, transport

    serve(open_session)


# The server: a process of its own, so that its work is not counted.


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def server(pieces: int, at_once: int, certificate: str) -> None:
    """Answer every request with this many pieces, `at_once` in one write; the port goes to stdout."""
    delta = event("content_block_delta", index=0, delta={"type": "text_delta", "text": PIECE})
    usage = {"input_tokens": 1, "output_tokens": 1}
    head = event("message_start", message={"id": "m", "usage": usage})
    head += event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    tail = event("content_block_stop", index=0)
    tail += event("message_delta", delta={"stop_reason": "end_turn"}, usage=usage) + event("message_stop")

    def chunk(data: bytes) -> bytes:
        return b"%x\r\n%b\r\n" % (len(data), data)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        top = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(top.partition(b"content-length:")[2].split(b"\r\n")[0]))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        writer.write(chunk(head))
        for _ in range(pieces // at_once):
            writer.write(chunk(delta) * at_once)
            await writer.drain()
        writer.write(chunk(tail) + b"0\r\n\r\n")
        await writer.drain()
        writer.close()

    async def main() -> None:
        context = None
        if certificate:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(certificate)
        listening = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
        print(listening.sockets[0].getsockname()[1], flush=True)
        await listening.serve_forever()

    asyncio.run(main())


# Measuring.


@dataclass(frozen=True)
class Taken:
    seconds: float
    cpu: float
    memory: float  # MiB


class Bench:
    def __init__(self, home: Path, tls: bool) -> None:
        self.home = home
        self.certificate = ""
        if tls:
            self.certificate = str(home / "certificate.pem")
            wishes = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
            files = ["-keyout", self.certificate, "-out", str(home / "ca.pem")]
            subprocess.run(["openssl", *wishes.split(), *files], check=True, capture_output=True)
            with open(self.certificate, "a") as file:
                file.write((home / "ca.pem").read_text())

    @contextmanager
    def serving(self, pieces: int, at_once: int = 1) -> Iterator[None]:
        argv = [sys.executable, __file__, "--serve", f"{pieces},{at_once},{self.certificate}"]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            scheme = "https" if self.certificate else "http"
            bench = {"baseUrl": f"{scheme}://127.0.0.1:{port}", "api": "anthropic-messages", "apiKey": "k"}
            providers = {"bench": {**bench, "models": [{"id": "m"}]}}
            (self.home / "models.json").write_text(json.dumps({"providers": providers}))
            try:
                yield
            finally:
                process.kill()

    def run(self, client: str, until: bytes, rest: float = 0) -> Taken:
        """A process from its start, or from the prompt if it may rest before, until its output has `until`."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        environment = {**kept, "HOME": str(self.home), "PI_CODING_AGENT_DIR": str(self.home)}
        if self.certificate:
            environment["SSL_CERT_FILE"] = str(self.home / "ca.pem")
        started = time.perf_counter()
        argv = [sys.executable, __file__, "--rpc", client]
        process = subprocess.Popen(argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        assert process.stdin is not None and process.stdout is not None
        if rest:
            process.stdin.write(GET_STATE)
            process.stdout.read(1)
            time.sleep(rest)
            started = time.perf_counter()
        process.stdin.write(PROMPT)
        end = b""
        while until not in end:
            portion = process.stdout.read(1 << 20)
            if not portion:
                raise EOFError(f"{client} ended early")
            end = end[-200:] + portion
        seconds = time.perf_counter() - started
        process.stdin.close()
        while process.stdout.read(1 << 20):
            pass
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stdout.close()
        return Taken(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def turns(count: int, measure: Callable[[str], Taken]) -> dict[str, Taken]:
    """The medians of each client, taking turns; the first turn is not counted."""
    taken: dict[str, list[Taken]] = {client: [] for client in CLIENTS}
    for turn in range(count + 1):
        for client in CLIENTS:
            result = measure(client)
            if turn:
                taken[client].append(result)
    return {
        client: Taken(*(median(getattr(one, part) for one in all) for part in ("seconds", "cpu", "memory")))
        for client, all in taken.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure tau on three HTTP clients.")
    parser.add_argument("--pieces", type=int, default=20_000)
    parser.add_argument("--starts", type=int, default=9)
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--rpc", choices=CLIENTS, help=argparse.SUPPRESS)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rpc:
        return rpc(given.rpc)
    if given.serve:
        pieces, at_once, certificate = given.serve.split(",")
        return server(int(pieces), int(at_once), certificate)

    rows: list[tuple[str, dict[str, str]]] = []

    def row(name: str, values: dict[str, float], unit: str) -> None:
        rows.append((name, {client: f"{value:.1f} {unit}" for client, value in values.items()}))

    delta, settled = b'"text_delta"', b'"agent_settled"'
    with tempfile.TemporaryDirectory() as home:
        bench = Bench(Path(home), given.tls)
        with bench.serving(1):
            cold = turns(given.starts, lambda client: bench.run(client, delta))
            warm = turns(given.starts, lambda client: bench.run(client, delta, rest=0.5))
            short = turns(given.starts, lambda client: bench.run(client, settled))
        row("start to first text", {client: one.seconds * 1e3 for client, one in cold.items()}, "ms")
        row("prompt to first text, warmed", {client: one.seconds * 1e3 for client, one in warm.items()}, "ms")
        row("CPU of a process with one short answer", {client: one.cpu * 1e3 for client, one in short.items()}, "ms")
        row("memory, one short answer", {client: one.memory for client, one in short.items()}, "MiB")
        for how, at_once in (("each in a chunk and a write of its own", 1), ("50 in a write", 50)):
            with bench.serving(given.pieces, at_once):
                long = turns(2, lambda client: bench.run(client, settled))
            costs = {client: (one.cpu - short[client].cpu) / given.pieces * 1e6 for client, one in long.items()}
            row(f"CPU of a piece, {how}", costs, "us")
        row(f"memory, {given.pieces} pieces", {client: one.memory for client, one in long.items()}, "MiB")
    print(f"Python {platform.python_version()}, {os.cpu_count()} processors, {'https' if given.tls else 'http'}\n")
    print("| |", " | ".join(CLIENTS), "|\n|---|" + "---|" * len(CLIENTS))
    for name, cells in rows:
        print(f"| {name} |", " | ".join(cells[client] for client in CLIENTS), "|")


if __name__ == "__main__":
    main()
