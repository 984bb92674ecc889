"""What MCP costs: the first connection, a call beside the Python SDK's client, memory of servers and of many tools.

    python -m benchmarks.mcp [--sdk PYTHON] [--calls 1000]

PYTHON is an interpreter that has `mcp` 2.x: both clients then call the same server of the SDK in turn, over stdio and
HTTP. Without it only tau is measured, with the server of the tests. Linux only: memory is read from /proc. Exit code 1
if a limit of docs/mcp.md is exceeded.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tau.records.base import convert, parse
from tau.runtime.app.mcp_program import McpProgram
from tau.runtime.mcp.connection import RequestOptions
from tau.runtime.mcp.server import McpServer

ROOT = Path(__file__).resolve().parent.parent
TEST_SERVER = ROOT / "tests" / "support" / "mcp_server.py"
SERVERS, TOOLS, ROUNDS = 20, 1000, 9
SDK_SERVER = """\
import sys
from mcp.server.mcpserver import MCPServer
server = MCPServer("bench")
@server.tool()
def echo(text: str) -> str:
    "Return the text."
    return text
server.run("stdio") if len(sys.argv) == 1 else server.run("streamable-http", port=int(sys.argv[1]))
"""
SDK_CLIENT = """\
import asyncio, json, sys, time
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
async def main():
    words, calls = json.loads(sys.argv[1]), int(sys.argv[2])
    http = words[0].startswith("http")
    target = words[0] if http else stdio_client(StdioServerParameters(command=words[0], args=words[1:]))
    async with Client(target) as client:
        took = []
        for _ in range(calls):
            began = time.perf_counter()
            await client.call_tool("echo", {"text": "hi"})
            took.append(time.perf_counter() - began)
    print(json.dumps(took))
asyncio.run(main())
"""
Json = dict[str, Any]


def check(what: str, value: float, limit: float, unit: str = "") -> bool:
    print(f"{'ok  ' if value <= limit else 'OVER'} {what}: {value:.3g}{unit} (at most {limit:g})", flush=True)
    return value <= limit


def test_server(**options: Any) -> Json:
    return {"command": sys.executable, "args": ["-S", str(TEST_SERVER), json.dumps(options)]}


def program_with(folder: Path, servers: Json) -> McpProgram:
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    return McpProgram(folder, str(folder), os.environ)


def memory() -> float:
    """MB that are this process's own."""
    return int(Path("/proc/self/smaps_rollup").read_text().partition("Pss:")[2].split()[0]) / 1024


def bare_connection(words: Sequence[str]) -> float:
    """Seconds until a server has listed its tools to a client that does nothing else."""
    began = time.perf_counter()
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None

        def send(message: Json) -> None:
            assert process.stdin is not None
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            process.stdin.flush()

        client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bare", "version": "1"}}
        send({"id": 1, "method": "initialize", "params": client})
        process.stdout.readline()
        send({"method": "notifications/initialized"})
        send({"id": 2, "method": "tools/list"})
        while json.loads(process.stdout.readline()).get("id") != 2:
            pass
        took = time.perf_counter() - began
        process.kill()
    return took


async def connection(program: McpProgram) -> float:
    server = program.server(program.config("one"))
    began = time.perf_counter()
    await server.start()
    took = time.perf_counter() - began
    await server.close(1)
    return took


def first_connection(folder: Path) -> bool:
    entry = test_server(tools=["echo"])
    words = [entry["command"], *entry["args"]]
    program = program_with(folder, {"one": entry})
    pairs = [(asyncio.run(connection(program)), bare_connection(words)) for _ in range(ROUNDS)]
    ours, bare = (statistics.median(one) * 1000 for one in zip(*pairs, strict=True))
    print(f"     tools listed after {ours:.1f} ms; a client that does nothing else: {bare:.1f} ms")
    return check("tau's share of a first connection", ours - bare, 30, " ms")


async def connected(program: McpProgram) -> list[McpServer]:
    servers = [program.server(config) for config in program.loaded.configs.values()]
    for server in servers:
        await server.start()
    return servers


def memory_of_servers(folder: Path) -> bool:
    async def main() -> float:
        await asyncio.gather(*(one.close(1) for one in await connected(program_with(folder, {"warm": test_server()}))))
        before = memory()
        servers = await connected(program_with(folder, {f"s{at}": test_server() for at in range(SERVERS)}))
        more = (memory() - before) / SERVERS
        await asyncio.gather(*(one.close(1) for one in servers))
        return more

    return check(f"memory of each of {SERVERS} connected servers", asyncio.run(main()), 0.5, " MB")


def memory_of_tools(folder: Path) -> bool:
    many = [f"tool_{at}" for at in range(TOOLS)]

    async def main() -> float:
        await asyncio.gather(*(one.close(1) for one in await connected(program_with(folder, {"warm": test_server()}))))
        before = memory()
        servers = await connected(program_with(folder, {"many": test_server(tools=many)}))
        more = memory() - before
        await asyncio.gather(*(one.close(1) for one in servers))
        return more

    return check(f"memory of a server with {TOOLS} tools", asyncio.run(main()), 3, " MB")


async def tau_calls(program: McpProgram, calls: int) -> list[float]:
    server, took = program.server(program.config("one")), []
    await server.start()
    try:
        options = RequestOptions(60.0, 60.0)
        for _ in range(calls):
            began = time.perf_counter()
            await server.call("tools/call", {"name": "echo", "arguments": {"text": "hi"}}, options)
            took.append(time.perf_counter() - began)
    finally:
        await server.close(1)
    return took


def sdk_calls(python: str, words: Sequence[str], calls: int) -> list[float]:
    command = [python, "-c", SDK_CLIENT, json.dumps(words), str(calls)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return convert(parse(done.stdout.splitlines()[-1].encode()), list[float])


def calls_beside_sdk(folder: Path, name: str, entry: Json, words: Sequence[str], given: argparse.Namespace) -> bool:
    """`words` are for the client of the SDK: a command, or an address."""
    limit = 1.5 if name == "stdio" else 3.0
    program = program_with(folder, {"one": entry})
    ours = [one for _ in range(3) for one in asyncio.run(tau_calls(program, given.calls // 3))]
    held = check(f"a call over {name}, p50", statistics.median(ours) * 1000, limit, " ms")
    if given.sdk:
        theirs = [one for _ in range(3) for one in sdk_calls(given.sdk, words, given.calls // 3)]
        print(f"     the client of the SDK: {statistics.median(theirs) * 1000:.3g} ms")
        held &= check("against the client of the SDK", statistics.median(ours) / statistics.median(theirs), 0.5)
    return held


def listening(python: str, server: Path, stack: ExitStack) -> str:
    """The address of the SDK's server over HTTP."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([python, str(server), str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stack.callback(process.kill)
    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return f"http://127.0.0.1:{port}/mcp"
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the server of the SDK did not start")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sdk", help="a Python interpreter with mcp 2.x")
    parser.add_argument("--calls", type=int, default=1000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        held = [first_connection(folder), memory_of_servers(folder), memory_of_tools(folder)]
        if given.sdk:
            server = folder / "server.py"
            server.write_text(SDK_SERVER)
            words = [given.sdk, str(server)]
            held.append(calls_beside_sdk(folder, "stdio", {"command": words[0], "args": words[1:]}, words, given))
            url = listening(given.sdk, server, stack)
            held.append(calls_beside_sdk(folder, "HTTP", {"url": url}, [url], given))
        else:
            held.append(calls_beside_sdk(folder, "stdio", test_server(tools=["echo"]), [], given))
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
