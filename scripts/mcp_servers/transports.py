"""Try tau with real MCP servers, over stdio and HTTP, and print a table of what was used and the result.

    python scripts/mcp_servers/transports.py [--folder build/mcp-servers] [NAME ...]

Installs the servers below the folder: npm packages if Node is here, Python ones in environments of their own. Needs a
package index. Exit code 1 if one of them does not work.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import socket
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import tau
from tau import events
from tau.records.messages import Image, Text

NPM = "@modelcontextprotocol"
START_TIMEOUT_S = 60
SDK_SERVER = """\
import sys
from typing import Annotated
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel

server = MCPServer("sdk", instructions="A server of the Python SDK.")

class Answer(BaseModel):
    name: str

@server.tool()
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

@server.tool()
async def steps(count: int, ctx: Context) -> str:
    "Report progress."
    for at in range(count):
        await ctx.report_progress(at + 1, count, "working")
    return "done"

def who() -> Elicit[Answer]:
    return Elicit("Who are you?", Answer)

@server.tool()
def ask(answer: Annotated[Answer, Resolve(who)]) -> str:
    "Ask the user for a name."
    return f"Hello, {answer.name}."

@server.resource("demo://text")
def text() -> str:
    return "a text"

@server.prompt()
def review(topic: str) -> str:
    return f"Review {topic}."

if len(sys.argv) > 1:
    server.run("streamable-http", port=int(sys.argv[1]))
else:
    server.run("stdio")
"""
FASTMCP_SERVER = """\
import sys
from fastmcp import Context, FastMCP

server = FastMCP("fast")

@server.tool
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

@server.tool
async def steps(count: int, ctx: Context) -> str:
    "Report progress."
    for at in range(count):
        await ctx.report_progress(at + 1, count)
    return "done"

@server.resource("demo://text")
def text() -> str:
    return "a text"

@server.prompt
def review(topic: str) -> str:
    return f"Review {topic}."

if len(sys.argv) > 1:
    server.run(transport="http", port=int(sys.argv[1]))
else:
    server.run()
"""

Call = tuple[str, dict[str, Any]]


class Trial(NamedTuple):
    """A server and what is done with it. `serve` is the command of an HTTP server, which gets a free port."""

    name: str
    transport: str
    entry: dict[str, Any]
    calls: list[Call]
    serve: list[str] | None = None
    path: str = "/mcp"
    variables: Mapping[str, str] = {}


class Outcome(NamedTuple):
    version: str
    era: str
    offers: str
    used: str
    result: str


def run(command: list[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def python_with(package: str, folder: Path) -> str:
    """The Python of an environment that has the package."""
    place = folder / package
    python = place / "bin" / "python"
    if not python.exists():
        venv.create(place, with_pip=True)
        run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", package], folder)
    return str(python)


def node_servers(folder: Path) -> Iterator[Trial]:
    if shutil.which("npm") is None:
        print("There is no npm here: the servers of npm are NOT tried", file=sys.stderr)
        return
    modules = folder / "node_modules" / NPM
    names = ("server-everything", "server-filesystem", "server-memory")
    if not all((modules / name).exists() for name in names):
        run(["npm", "install", "--silent", "--no-audit", *(f"{NPM}/{name}" for name in names)], folder)
    everything = str(modules / "server-everything" / "dist" / "index.js")
    prefix = "mcp__server__"
    calls: list[Call] = [
        (f"{prefix}echo", {"message": "hi"}),
        (f"{prefix}get_sum", {"a": 1, "b": 2}),
        (f"{prefix}get_tiny_image", {}),
        (f"{prefix}get_structured_content", {"location": "New York"}),
        (f"{prefix}trigger_long_running_operation", {"duration": 1, "steps": 2}),
        (f"{prefix}get_roots_list", {}),
        ("list_mcp_resources", {}),
    ]
    yield Trial("server-everything", "stdio", {"command": "node", "args": [everything]}, calls)
    for transport, path, kind in (("streamableHttp", "/mcp", "http"), ("sse", "/sse", "sse")):
        serve = ["node", everything, transport]
        yield Trial("server-everything", kind, {"type": kind}, calls, serve, path)
    (folder / "files").mkdir(exist_ok=True)
    (folder / "files" / "a.txt").write_text("hello\n")
    files = str(modules / "server-filesystem" / "dist" / "index.js")
    file_entry = {"command": "node", "args": [files, str(folder / "files")]}
    file_calls: list[Call] = [
        (f"{prefix}list_directory", {"path": str(folder / "files")}),
        (f"{prefix}read_text_file", {"path": str(folder / "files" / "a.txt")}),
        (f"{prefix}write_file", {"path": str(folder / "files" / "b.txt"), "content": "x"}),
    ]
    yield Trial("server-filesystem", "stdio", file_entry, file_calls)
    memory = str(modules / "server-memory" / "dist" / "index.js")
    graph = folder / "memory.json"
    graph.unlink(missing_ok=True)
    entity: dict[str, Any] = {"name": "tau", "entityType": "program", "observations": ["speaks MCP"]}
    entry: dict[str, Any] = {"command": "node", "args": [memory], "env": {"MEMORY_FILE_PATH": str(graph)}}
    memory_calls: list[Call] = [(f"{prefix}create_entities", {"entities": [entity]}), (f"{prefix}read_graph", {})]
    yield Trial("server-memory", "stdio", entry, memory_calls)


def python_servers(folder: Path) -> Iterator[Trial]:
    for package, code in (("mcp", SDK_SERVER), ("fastmcp", FASTMCP_SERVER)):
        python, program = python_with(package, folder), folder / f"{package}_server.py"
        program.write_text(code)
        calls: list[Call] = [
            ("mcp__server__add", {"a": 2, "b": 3}),
            ("mcp__server__steps", {"count": 3}),
            *([("mcp__server__ask", {})] if package == "mcp" else []),
            ("read_mcp_resource", {"server": "server", "uri": "demo://text"}),
        ]
        yield Trial(package, "stdio", {"command": python, "args": [str(program)]}, calls)
        yield Trial(package, "http", {}, calls, [python, str(program)])


@contextmanager
def served(trial: Trial, folder: Path) -> Iterator[dict[str, Any]]:
    """The entry of the server; over HTTP it is started first."""
    if trial.serve is None:
        yield trial.entry
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = trial.serve if "node" in trial.serve[0] else [*trial.serve, str(port)]
    with (folder / f"{trial.name}.log").open("wb") as log:
        process = subprocess.Popen(words, env={**os.environ, "PORT": str(port)}, stdout=log, stderr=log)
    try:
        _wait_for(port)
        yield {**trial.entry, "url": f"http://127.0.0.1:{port}{trial.path}"}
    finally:
        process.terminate()
        process.wait()


def _wait_for(port: int) -> None:
    until = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise SystemExit(f"nothing listens at port {port}")


async def tried(trial: Trial, entry: dict[str, Any], folder: Path) -> Outcome:
    done: list[str] = []
    failed: list[str] = []
    progress: list[str] = []

    def saw(event: object) -> None:
        match event:
            case events.ToolEnd(tool_name=name, result=result, is_error=is_error):
                kinds = "image" if any(isinstance(block, Image) for block in result.content) else ""
                short = name.removeprefix("mcp__server__")
                done.append(f"{short} ({kinds})" if kinds else short)
                if is_error:
                    text = "".join(block.text for block in result.content if isinstance(block, Text))
                    failed.append(f"{short}: {text[:100]}")
            case events.ToolUpdate():
                progress.append("progress")
            case events.McpServerUpdate(error=str(error)):
                failed.append(error)

    answers: list[Any] = [{"blocks": [{"tool": name, "arguments": given}]} for name, given in trial.calls]
    agent_dir = folder / "agent"
    shutil.rmtree(agent_dir, ignore_errors=True)
    async with tau.open(
        folder,
        script=[*answers, {"text": "done"}],
        session=False,
        agent_dir=agent_dir,
        mcp_servers={"server": {**entry, "startupTimeout": START_TIMEOUT_S}},
        dialogs=lambda question: "Ada",
        on_event=saw,
    ) as agent:
        await agent.restart_mcp_server("server")  # the first prompt would wait only a few seconds for it
        await agent.prompt("go")
        (row,) = (await agent.mcp_servers()).servers
        prompts = [command for command in await agent.commands() if command.source == "mcp"]
    tools = row.tools if isinstance(row.tools, list) else []
    if len(done) < len(trial.calls):
        failed.append(f"only {len(done)} of {len(trial.calls)} calls")
    used = ", ".join([*done, *(["progress"] if progress else [])])
    offers = f"{len(tools)} tools, {len(prompts)} prompts"
    return Outcome(str(row.version), f"{row.era} {row.protocol}", offers, used, "; ".join(failed) or "ok")


def main() -> int:
    parser = argparse.ArgumentParser(description="Try tau with real MCP servers.")
    parser.add_argument("--folder", type=Path, default=Path("build/mcp-servers"))
    parser.add_argument("names", nargs="*", metavar="NAME", help="servers to try; all by default")
    given = parser.parse_args()
    folder = given.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    sources: list[Callable[[Path], Iterator[Trial]]] = [node_servers, python_servers]
    failures = 0
    print("| server | transport | version | protocol | offers | used | result |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for source in sources:
        for trial in source(folder):
            if given.names and trial.name not in given.names:
                continue
            with served(trial, folder) as entry:
                outcome = asyncio.run(tried(trial, entry, folder))
            failures += outcome.result != "ok"
            print("| " + " | ".join((trial.name, trial.transport, *outcome)) + " |", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
