"""Requests and frames without a credential, mutated: none is let in, and the server says nothing of it.

    python tests/long/serve_fuzz.py [100000] [--seed N]

A real `tau serve` gets them over many connections at once. Counted are answers that only a client with a credential
may get, tracebacks and other lines on stderr, and how much memory the server has at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from serve.serve_process import ServeProcess

AT_ONCE = 40
WITHIN = 15.0
PATHS = (
    *("/v1/sessions", "/v1/sessions/ID", "/v1/sessions/ID/commands", "/v1/sessions/ID/events", "/v1/sessions/ID/cards"),
    *("/v1/sessions/ID/export", "/v1/login", "/v1/logout", "/v1/openapi.json", "/v1/schema/host.json", "/metrics"),
    *("/readyz", "/healthz", "/", "/static/x.js", "/v1/ws", "*", "//", "/%2e%2e/", "http://127.0.0.1/v1/sessions"),
)
METHODS = ("GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "CONNECT", "PRI", "get")
FIELDS = (
    *("Host: 127.0.0.1:PORT", "Host: localhost:PORT", "Host: evil.example", "Host:", "Origin: http://127.0.0.1:PORT"),
    *("Origin: null", "Authorization: Bearer tau_wrong", "Authorization: Bearer", "Authorization: Basic YTpi"),
    *(
        "Content-Type: application/json",
        "Content-Type: application/x-ndjson",
        "Content-Length: 2",
        "Content-Length: -1",
    ),
    *("Transfer-Encoding: chunked", "Expect: 100-continue", "Sec-Fetch-Site: same-origin", "Cookie: a=b"),
    *("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Protocol: tau.v1"),
    *("Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: 127.0.0.1:PORT"),
)
UPGRADE = (
    "GET /v1/ws HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nOrigin: http://127.0.0.1:PORT\r\nUpgrade: websocket\r\n"
    "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    "Sec-WebSocket-Protocol: tau.v1\r\n\r\n"
)
LINES = (
    b'{"type":"hello","version":1}',
    b'{"type":"hello","version":1,"token":"tau_wrong"}',
    b'{"type":"hello","version":1,"token":null,"session":"ID"}',
    b'{"type":"open_session"}',
    b'{"type":"hello","version":1}\n{"type":"list_sessions"}',
)
# What only a client with a credential may get.
LET_IN = (
    b'"sessions":',
    b'"success":true',
    b"tau_sessions",
    b'"entries"',
    b'"openapi"',
    b"201 Created",
    b"202 Accepted",
)


class Figures(NamedTuple):
    tried: int
    let_in: int
    said: int  # lines on stderr
    grown_mb: float
    unanswered: int  # connections that were neither answered nor closed


def mutated(data: bytes, dice: random.Random) -> bytes:
    body = bytearray(data)
    for _ in range(dice.choice((0, 0, 1, 1, 2, 5))):
        at = dice.randrange(len(body) + 1)
        match dice.randrange(4):
            case 0:
                body[at:at] = bytes(dice.randrange(256) for _ in range(dice.randint(1, 4)))
            case 1:
                del body[at : at + dice.randint(1, 8)]
            case 2:
                body[at : at + 1] = bytes((dice.randrange(256),))
            case 3:
                body[at:at] = body[max(0, at - dice.randint(1, 40)) : at]
    return bytes(body)


def request(dice: random.Random, port: int) -> bytes:
    fields = [field for field in FIELDS if dice.random() < 0.2]
    if dice.random() < 0.8:
        fields.insert(0, FIELDS[0])
    dice.shuffle(fields)
    lines = [f"{dice.choice(METHODS)} {dice.choice(PATHS)} HTTP/1.1", *fields, "", dice.choice(("", "{}", "0\r\n\r\n"))]
    return mutated("\r\n".join(lines).replace("PORT", str(port)).encode(), dice)


def frames(dice: random.Random) -> bytes:
    made = b""
    for _ in range(dice.randint(1, 3)):
        data = mutated(dice.choice(LINES), dice)
        size = bytes((0x80 | len(data),)) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2, "big")
        made += bytes((dice.choice((0x81, 0x81, 0x81, 0x82, 0x01, 0x80, 0x88, 0x89, 0x8A)),)) + size + bytes(4) + data
    return mutated(made, dice)


async def attempt(port: int, seed: int) -> tuple[bool, bool]:
    """One connection. Returns whether it was let in, and whether it had an answer or an end."""
    dice = random.Random(seed)
    received, ended = b"", False
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False, True
    try:
        async with asyncio.timeout(WITHIN):
            if dice.random() < 0.4:
                writer.write(UPGRADE.replace("PORT", str(port)).encode())
                received = await reader.readuntil(b"\r\n\r\n")
                writer.write(frames(dice))
            else:
                writer.write(request(dice, port))
            writer.write_eof()
            while part := await reader.read(65536):
                received += part
            ended = True
    except (OSError, asyncio.IncompleteReadError):
        ended = True
    except TimeoutError:
        ended = bool(received)
    finally:
        writer.close()
    return any(mark in received for mark in LET_IN), ended


async def attempts(port: int, numbers: range, seed: int) -> list[tuple[bool, bool]]:
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> tuple[bool, bool]:
        async with slots:
            return await attempt(port, seed * 1_000_003 + number)

    return await asyncio.gather(*map(one, numbers))


def memory_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def measure(count: int, seed: int = 1) -> Figures:
    with tempfile.TemporaryDirectory(prefix="tau-fuzz-") as place, ServeProcess(Path(place)) as server:
        pid, warm_up = server.process.pid, min(20_000, count // 4)
        found = asyncio.run(attempts(server.port, range(warm_up), seed))
        before = memory_mb(pid)
        for start in range(warm_up, count, 5000):
            found += asyncio.run(attempts(server.port, range(start, min(start + 5000, count)), seed))
        after = memory_mb(pid)
        assert server.ask("GET", "/v1/sessions?live").status == 200
        _, errors = server.stop()
    if errors:
        print(errors[:2000], file=sys.stderr)
    return Figures(
        len(found),
        sum(let_in for let_in, _ in found),
        len(errors.splitlines()),
        max(0.0, after - before),
        sum(not ended for _, ended in found),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    figures = measure(given.count, given.seed)
    print(
        f"{figures.tried} tried, {figures.let_in} let in, {figures.said} lines on stderr,"
        f" {figures.unanswered} unanswered, +{figures.grown_mb:.1f} MB"
    )
    return 0 if not figures.let_in and not figures.said and not figures.unanswered and figures.grown_mb <= 5 else 1


if __name__ == "__main__":
    sys.exit(main())
