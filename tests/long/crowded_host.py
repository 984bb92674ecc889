"""Clients with a token beside a crowd without one: is anybody thrown out, and how late is the slowest answer?

    python tests/long/crowded_host.py [--clients 200] [--strangers 5000] [--seconds 20] [--nginx]

A real `tau serve`. The strangers are in a process of their own: they say nothing, send half a head, a wrong token, or
open a WebSocket and send no token; others ask /healthz and keep the connection. Whoever is closed comes back within two
seconds. In the middle of them all clients connect at once, and then ask for the state of their session again and again.
With --nginx all of them come through nginx, with the lines of docs/serve-http.md.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from long.serve_load import LoadClient, percentile
from serve.serve_process import ServeProcess
from support.nginx import free_port, nginx

CLIENTS, STRANGERS, SECONDS = 200, 5000, 20.0
TOKENS = 8  # among which the clients are divided: one token has a rate of requests
COMES_BACK_S = 1.0
PACE_S = 1.0  # of the questions of a client
AT_ONCE = 500  # strangers that connect at the same time
SPARE = 500  # descriptors beside those of the connections
WITHIN = 120.0
UPGRADE = (
    "GET /v1/ws HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n{who}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    "Sec-WebSocket-Protocol: tau.v1\r\n\r\n"
)
SENT = (
    "",
    "GET /v1/sessions HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nX:",
    "GET /v1/sessions HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nAuthorization: Bearer tau_wrong\r\n\r\n",
    "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n",
    UPGRADE.format(who="Origin: http://127.0.0.1:PORT"),
    UPGRADE.format(who="Origin: https://127.0.0.1:PORT"),  # behind nginx it is this one
)


class Found(NamedTuple):
    clients: int
    strangers: int  # that had connected before the first client, and tried all the time
    answers: int
    lost: int  # clients that were refused, thrown out, or had no answer
    median_ms: float
    connected_s: float  # until the greeting of the slowest was answered
    worst_s: float
    metrics: str
    said: str  # by the host, on stderr


# The strangers.


async def strangers(port: int, count: int) -> None:
    slots, arrived, all_arrived = asyncio.Semaphore(AT_ONCE), 0, asyncio.Event()

    async def one(number: int) -> None:
        nonlocal arrived
        data, first = SENT[number % len(SENT)].replace("PORT", str(port)).encode(), True
        while True:
            with contextlib.suppress(OSError):
                async with slots:
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                try:
                    writer.write(data)
                    arrived += first
                    first = False
                    if arrived == count:
                        all_arrived.set()
                    while await reader.read(65536):
                        pass
                finally:
                    writer.close()
            await asyncio.sleep(random.uniform(0, 2 * COMES_BACK_S))

    crowd = [asyncio.ensure_future(one(number)) for number in range(count)]
    await all_arrived.wait()
    print("all are here", flush=True)
    await asyncio.gather(*crowd)


@contextlib.contextmanager
def crowd(port: int, count: int) -> Iterator[None]:
    """Strangers in another process, when the last of them has connected."""
    argv = [sys.executable, __file__, "--inside", str(port), "--strangers", str(count)]
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline(), "the strangers did not come"
        yield
    finally:
        process.kill()
        process.communicate()


# The clients.


class Client(LoadClient):
    """Counts how long each answer took."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = asyncio.get_running_loop().create_future()
        self.took: list[float] = []
        self.is_done = False

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(exc)

    async def open(self, port: int, token: str) -> None:
        await asyncio.get_running_loop().create_connection(lambda: self, "127.0.0.1", port)
        opened = asyncio.ensure_future(self.wait(b"open"))
        await asyncio.sleep(0)
        self.transport.write(UPGRADE.format(who=f"Authorization: Bearer {token}").replace("PORT", str(port)).encode())
        await asyncio.wait([opened, self.ended], return_when=asyncio.FIRST_COMPLETED)
        if not opened.done():
            raise ConnectionError("the connection was refused")


async def one_client(port: int, token: str, session: str, until: float) -> Client:
    """Connects, greets and asks until the time is over; without `is_done`, it was thrown out."""
    client, loop = Client(), asyncio.get_running_loop()

    async def live() -> None:
        begun = loop.time()
        await client.open(port, token)
        await client.ask("h", "hello", version=1, dialect="1.5", session=session)
        client.took.append(loop.time() - begun)
        while loop.time() < until:
            await asyncio.sleep(random.uniform(0, 2 * PACE_S))
            begun = loop.time()
            await client.ask("s", "get_state")
            client.took.append(loop.time() - begun)
        client.is_done = True

    living = asyncio.ensure_future(live())
    with contextlib.suppress(OSError, TimeoutError):
        await asyncio.wait([living, client.ended], timeout=WITHIN, return_when=asyncio.FIRST_COMPLETED)
    if not living.done():
        living.cancel()
    await asyncio.wait([living])
    if not client.is_done and not living.cancelled():
        print(f"a client was lost: {living.exception()!r}", file=sys.stderr)
    return client


async def all_clients(port: int, main_token: str, tokens: list[str], count: int, seconds: float) -> list[Client]:
    first = Client()
    await first.open(port, main_token)
    await first.ask("h", "hello", version=1, dialect="1.5")
    session = (await first.ask("o", "open_session", memory=True))["session"]
    until = asyncio.get_running_loop().time() + seconds
    return await asyncio.gather(
        *(one_client(port, tokens[number % len(tokens)], session, until) for number in range(count))
    )


def measure(
    folder: Path,
    clients: int = CLIENTS,
    strangers: int = STRANGERS,
    seconds: float = SECONDS,
    *,
    through_nginx: bool = False,
) -> Found:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * (clients + strangers) + SPARE:
        raise SystemExit(f"{2 * (clients + strangers) + SPARE} descriptors are needed: raise the limit ({hard})")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with contextlib.ExitStack() as stack:
        port, upstream = free_port(), free_port()
        flags = ["--listen", f"127.0.0.1:{upstream}", "--public-url", f"https://127.0.0.1:{port}"]
        flags = flags if through_nginx else ["--listen", f"127.0.0.1:{port}"]
        server = stack.enter_context(ServeProcess(folder / "host", *flags))
        names = [f"office-{number}" for number in range(TOKENS)]
        tokens = [server.command("serve", "token", "new", "--name", name).stdout.strip() for name in names]
        if through_nginx:
            stack.enter_context(nginx(folder / "nginx", port, upstream, hard))
        stack.enter_context(crowd(port, strangers))
        found = asyncio.run(all_clients(port, server.token, tokens, clients, seconds))
        took = [one for client in found for one in client.took]
        metrics = server.ask("GET", "/metrics").body.decode()
        shown = [line for line in metrics.splitlines() if line.startswith("tau_connections")]
        return Found(
            len(found),
            strangers,
            len(took),
            sum(not client.is_done for client in found),
            percentile(took, 0.5) * 1000,
            max((client.took[0] for client in found if client.took), default=float("inf")),
            max(took, default=float("inf")),
            "; ".join(shown),
            server.errors,
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--strangers", type=int, default=STRANGERS)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--nginx", action="store_true")
    parser.add_argument("--inside", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        asyncio.run(strangers(given.inside, given.strangers))
    with tempfile.TemporaryDirectory(prefix="tau-crowd-") as folder:
        place = Path(folder).resolve()
        found = measure(place, given.clients, given.strangers, given.seconds, through_nginx=given.nginx)
    print(
        f"{found.clients} clients beside {found.strangers} strangers{' through nginx' if given.nginx else ''}:"
        f" {found.lost} lost, {found.answers} answers, median {found.median_ms:.1f} ms,"
        f" slowest to connect {found.connected_s:.3f} s, worst {found.worst_s:.3f} s"
        f" (load {os.getloadavg()[0]:.1f})\n{found.metrics}\n{found.said}".rstrip()
    )
    return 0 if not found.lost and found.worst_s <= 1 else 1


if __name__ == "__main__":
    sys.exit(main())
