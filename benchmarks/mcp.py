"""What MCP costs: the first connection, a call beside the Python SDK's client, memory of servers and of many tools.

    python -m benchmarks.mcp [--sdk PYTHON] [--everything COMMAND] [--calls 1000]

COMMAND is that of `@modelcontextprotocol/server-everything`, whose tool `echo` is called over stdio. PYTHON is an
interpreter that has `mcp` 2.x: both clients then call the same servers in turn, over stdio and HTTP. One server takes
nearly no time (mcp_fast_server.py), so that the time of a call is that of the client. The others take more than most
clients. Their own time, which a client that does nothing else shows, is in the times of both clients: what is left is
compared. Without PYTHON only tau is measured. Linux only: memory is read from /proc. Exit code
1 if a limit of docs/mcp.md is exceeded.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.mcp_bare_client import http_calls, stdio_calls
from tau.records.base import convert, parse
from tau.runtime.app.mcp_program import McpProgram
from tau.runtime.mcp.connection import RequestOptions
from tau.runtime.mcp.server import McpServer

ROOT = Path(__file__).resolve().parent.parent
TEST_SERVER = ROOT / "tests" / "support" / "mcp_server.py"
FAST_SERVER = ROOT / "benchmarks" / "mcp_fast_server.py"
SERVERS, TOOLS, ROUNDS, CALL_ROUNDS = 20, 1000, 9, 3
SDK_SERVER = """\
import sys
from mcp.server.mcpserver import MCPServer
server = MCPServer("bench")
@server.tool()
def echo(message: str) -> str:
    "Return the message."
    return message
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
            await client.call_tool("echo", {"message": "hi"})
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
            await server.call("tools/call", {"name": "echo", "arguments": {"message": "hi"}}, options)
            took.append(time.perf_counter() - began)
    finally:
        await server.close(1)
    return took


def sdk_calls(python: str, words: Sequence[str], calls: int) -> list[float]:
    command = [python, "-c", SDK_CLIENT, json.dumps(words), str(calls)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return convert(parse(done.stdout.splitlines()[-1].encode()), list[float])


class Times(NamedTuple):
    """Milliseconds of a call: of a client that does nothing else, of tau, of the SDK's client (0 without it).

    The median of the best round: other programs on the machine make the others slower.
    """

    bare: float
    ours: float
    theirs: float


def measured(folder: Path, words: Sequence[str], given: argparse.Namespace, *, modern: bool) -> Times:
    """The three clients in turn. `words` are a command, or an address; `modern` is the era of the server."""
    is_http = words[0].startswith("http")
    program = program_with(folder, {"one": {"url": words[0]} if is_http else {"command": words[0], "args": words[1:]}})
    found: list[list[float]] = [[], [], []]
    for _ in range(CALL_ROUNDS):
        calls = given.calls // CALL_ROUNDS
        bare = http_calls(words[0], calls, modern=modern) if is_http else stdio_calls(words, calls, modern=modern)
        found[0].append(statistics.median(bare))
        found[1].append(statistics.median(asyncio.run(tau_calls(program, calls))))
        found[2].append(statistics.median(sdk_calls(given.sdk, words, calls)) if given.sdk else 0.0)
    times = Times(*(min(one) * 1000 for one in found))
    sdk = f", the client of the SDK {times.theirs:.3g} ms" if given.sdk else ""
    print(f"     a client that does nothing else {times.bare:.3g} ms, tau {times.ours:.3g} ms{sdk}")
    return times


def calls_of_fast_server(folder: Path, name: str, words: Sequence[str], given: argparse.Namespace) -> bool:
    print(f"     calls over {name} of a server that takes nearly no time:")
    times = measured(folder, words, given, modern=False)
    held = check(f"a call over {name}, p50", times.ours, 1.5 if name == "stdio" else 3.0, " ms")
    return held and (not given.sdk or check("against the client of the SDK", times.ours / times.theirs, 0.5))


def calls_of_slow_server(
    folder: Path, name: str, words: Sequence[str], given: argparse.Namespace, *, modern: bool
) -> bool:
    times = measured(folder, words, given, modern=modern)
    held = check(f"a call over {name}, p50", times.ours, 1.5 if name == "stdio" else 3.0, " ms")
    if not given.sdk:
        return held
    least = times.bare / times.theirs
    print(f"     against the client of the SDK {times.ours / times.theirs:.3g}; no client can be below {least:.3g}")
    share = (times.ours - times.bare) / (times.theirs - times.bare)
    return check("without the time of the server, against the client of the SDK", share, 0.5) and held


def fast_address(stack: ExitStack) -> str:
    command = [sys.executable, "-SE", str(FAST_SERVER), "http"]
    process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    stack.callback(process.kill)
    assert process.stdout is not None
    return f"http://127.0.0.1:{process.stdout.readline().strip()}/mcp"


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
    parser.add_argument("--everything", help="the command of @modelcontextprotocol/server-everything")
    parser.add_argument("--calls", type=int, default=1000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        held = [first_connection(folder), memory_of_servers(folder), memory_of_tools(folder)]
        fast = [sys.executable, "-SE", str(FAST_SERVER)]
        held.append(calls_of_fast_server(folder, "stdio", fast, given))
        held.append(calls_of_fast_server(folder, "HTTP", [fast_address(stack)], given))
        if given.everything:
            print("     calls over stdio of server-everything:")
            held.append(calls_of_slow_server(folder, "stdio", shlex.split(given.everything), given, modern=False))
        if given.sdk:
            server = folder / "server.py"
            server.write_text(SDK_SERVER)
            for name, words in (("stdio", [given.sdk, str(server)]), ("HTTP", [listening(given.sdk, server, stack)])):
                print(f"     calls over {name} of a server of the SDK:")
                held.append(calls_of_slow_server(folder, name, words, given, modern=True))
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
