"""Agents to be driven: tau, and each release of pi that TAU_PEERS names.

TAU_PEERS is a folder with a release of pi in each of its folders, as npm puts
them there, and with the node they want if the machine's is too old:

    mkdir -p peers/0.73.1 && cd peers/0.73.1 && npm install @mariozechner/pi-coding-agent@0.73.1
    mkdir -p peers/node22 && cd peers/node22 && npm install node@22
    TAU_PEERS=peers make test ARGS=tests/rpc_client

They get folders of their own and a model on loopback.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from support.anthropic_server import ModelServer
from support.rpc_process import KEYS, Json, surroundings
from support.socket_host import listening
from tau import RpcClient
from tau.cli.flags import parse
from tau.cli.session_options import session_options
from tau.serve.host import Host
from tau.serve.opening import HostConfig

PEERS = os.environ.get("TAU_PEERS")


def _releases() -> dict[str, list[str]]:
    folder = Path(PEERS) if PEERS else Path("/nowhere")
    node = next((str(path) for path in sorted(folder.glob("*/node_modules/node/bin/node"))), shutil.which("node"))
    found = {}
    for path in sorted(folder.glob("*/node_modules/@*/pi-coding-agent/package.json")) if node else []:
        program = path.parent / json.loads(path.read_text())["bin"]["pi"]
        found[path.parents[3].name] = [str(node), str(program)]
    return found


RELEASES = _releases()
HOST = "host"  # tau, as a session of a host in this process
NAMES = ["tau", HOST, *RELEASES]


class Server(ModelServer):
    """Also fails: an answer that begins with "!" is the status of a failure."""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answer = self._answers[min(len(self.asked) + 1, len(self._answers)) - 1]
        if not answer.startswith("!"):
            return await super()._serve(reader, writer)
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = next(int(line.split(":")[1]) for line in head.splitlines() if line.startswith("content-length:"))
        self.asked.append(json.loads(await reader.readexactly(length)))
        body = json.dumps({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}).encode()
        writer.write(
            b"HTTP/1.1 %b Overloaded\r\nContent-Type: application/json\r\nx-should-retry: false\r\n"
            b"Content-Length: %d\r\nConnection: close\r\n\r\n%b" % (answer[1:].encode(), len(body), body)
        )
        await writer.drain()
        writer.close()


class Peer:
    """One agent in its own folders, with the models m1 and m2, which thinks."""

    def __init__(self, name: str, folder: Path, server: ModelServer, settings: Json | None = None) -> None:
        self.name, self.server, self.folder = name, server, folder
        models = server.models
        m1 = models["providers"]["mock"]["models"][0]
        models["providers"]["mock"]["models"].append({**m1, "id": "m2", "name": "Mock 2", "reasoning": True})
        hidden = {name: "" for name in os.environ if KEYS.search(name)}
        self.env = {**hidden, **surroundings(folder, settings, models), "PI_OFFLINE": "1"}
        self.cwd = folder / "work"

    @property
    def is_tau(self) -> bool:
        return self.name in ("tau", HOST)

    def options(self, *args: str) -> dict[str, Any]:
        """For the constructor of a client."""
        return {
            "cwd": self.cwd,
            "provider": "mock",
            "model": "m1",
            "args": args,
            "env": self.env,
            "executable": RELEASES.get(self.name),
        }

    def client(self, *args: str) -> RpcClient:
        return RpcClient(**self.options(*args))

    @asynccontextmanager
    async def connected(self, *args: str) -> AsyncIterator[RpcClient]:
        """A client that is started: with a process of its own, or at a host."""
        if self.name != HOST:
            async with self.client(*args) as client:
                yield client
            return
        environment = {**os.environ, **self.env}
        options = session_options(parse(["--provider", "mock", "--model", "m1", *args]), environment)
        config = HostConfig(Path(self.env["PI_CODING_AGENT_DIR"]), options, (str(self.cwd),), environment)
        async with listening(Host(config)) as served, RpcClient.connect(served.url, dialect="default") as client:
            yield client
