"""Run real MCP servers of npm and PyPI with tau, beside the official client, and print tables.

    python scripts/mcp_servers [--folder build/mcp-servers] [NAME ...]

Lists of tools and results of calls must be equal to those of the client of the package `mcp`. With six of the servers
also: a wrong call, an abort and a kill in a slow call, each followed by a good call, and that no process is left. The
servers are installed below the folder. Needs npm and a package index. Exit code 1 if something differs.
"""

from __future__ import annotations

import argparse
import asyncio
import http.server
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import venv
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, NamedTuple

import tau
from tau import events
from tau.mcp.config import ServerConfig, Source, parse_entry
from tau.mcp.definitions import changed_tools, parse_tools
from tau.records.messages import Text
from tau.runtime.app.mcp_program import McpProgram
from tau.runtime.mcp.outcomes import NOTHING

Call = tuple[str, dict[str, Any]]
Installed = tuple[str, dict[str, Any]]  # the package, and the entry of the server
HERE = Path(__file__).parent
MARK = "TAU_TRIED_SERVER"  # in the environment of a server, and so of everything that it starts
NPM = (
    *("@modelcontextprotocol/server-everything", "@modelcontextprotocol/server-filesystem"),
    *("@modelcontextprotocol/server-memory", "@modelcontextprotocol/server-sequential-thinking", "@playwright/mcp"),
    *("@kazuph/mcp-taskmanager", "@eslint/mcp", "@antv/mcp-server-chart", "mcp-server-kubernetes"),
    "@cyanheads/git-mcp-server",
)
PYPI = {  # by environment: some servers break with mcp 2.x
    "python": (
        *("mcp", "mcp-server-git", "mcp-server-fetch", "mcp-server-time", "mcp-server-motherduck"),
        *("excel-mcp-server", "office-word-mcp-server", "duckduckgo-mcp-server"),
    ),
    "python-mcp1": (
        *("mcp<2", "mcp-server-sqlite", "cli-mcp-server", "mcp-text-editor", "mcp-server-calculator"),
        "mcp-shell-server",
    ),
}
ENDLESS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"
END_S = 5.0
TIMEOUT_S = 10  # of a call in the table of faults


class Server(NamedTuple):
    """`slow`: a call that lasts longer than anybody waits; then the server is one of the six."""

    package: str
    entry: dict[str, Any]
    good: Call
    wrong: Call | None = None
    slow: Call | None = None


def servers(folder: Path, slow_page: str) -> dict[str, Server]:
    files = folder / "files"

    def node(package: str, program: str, *words: str, **env: str) -> tuple[str, dict[str, Any]]:
        return package, {
            "command": "node",
            "args": [str(folder / "node_modules" / package / program), *words],
            "env": env,
        }

    def python(
        package: str, *words: str, place: str = "python", program: str = "", **env: str
    ) -> tuple[str, dict[str, Any]]:
        return package, {"command": str(folder / place / "bin" / (program or package)), "args": list(words), "env": env}

    def old(package: str, *words: str, **env: str) -> Installed:
        return python(package, *words, place="python-mcp1", **env)

    reference = "@modelcontextprotocol/server-"
    nothing: Call = ("", {})
    anything = {"ALLOWED_COMMANDS": "all", "ALLOWED_FLAGS": "all"}
    return {
        "everything": Server(
            *node(f"{reference}everything", "dist/index.js"),
            ("get-sum", {"a": 1, "b": 2}),
            ("get-sum", {"a": "one"}),
            ("trigger-long-running-operation", {"duration": 600, "steps": 600}),
        ),
        "filesystem": Server(
            *node(f"{reference}filesystem", "dist/index.js", str(files)),
            ("read_text_file", {"path": str(files / "a.txt")}),
        ),
        "memory": Server(
            *node(f"{reference}memory", "dist/index.js", MEMORY_FILE_PATH=str(folder / "memory.json")),
            ("read_graph", {}),
        ),
        "sequential-thinking": Server(
            *node(f"{reference}sequential-thinking", "dist/index.js"),
            (
                "sequentialthinking",
                {"thought": "x", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1},
            ),
        ),
        "playwright": Server(*node("@playwright/mcp", "cli.js", "--headless"), ("browser_tabs", {"action": "list"})),
        "taskmanager": Server(
            *node("@kazuph/mcp-taskmanager", "dist/index.js", TASK_MANAGER_FILE_PATH=str(folder / "tasks.json")),
            ("list_requests", {}),
        ),
        "eslint": Server(*node("@eslint/mcp", "src/mcp-cli.js"), ("lint-files", {"filePaths": [str(files / "a.txt")]})),
        "chart": Server(
            *node("@antv/mcp-server-chart", "build/index.js"),
            ("generate_pie_chart", {"data": [{"category": "a", "value": 1}]}),
        ),
        "kubernetes": Server(*node("mcp-server-kubernetes", "dist/index.js"), ("ping", {})),
        "cyanheads-git": Server(
            *node("@cyanheads/git-mcp-server", "dist/index.js"), ("git_log", {"path": str(folder / "repository")})
        ),
        "git": Server(*python("mcp-server-git"), ("git_log", {"repo_path": str(folder / "repository")})),
        "fetch": Server(
            *python("mcp-server-fetch", "--ignore-robots-txt", "--allow-private-ips"),
            ("fetch", {"url": slow_page.replace("slow", "fast"), "raw": True}),
            ("fetch", {}),
            ("fetch", {"url": slow_page}),
        ),
        "time": Server(
            *python("mcp-server-time"),
            ("convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "nowhere"}),
        ),
        "motherduck": Server(
            *python("mcp-server-motherduck", "--db-path", ":memory:", "--read-write"),
            ("execute_query", {"sql": "SELECT 6 * 7 AS answer"}),
            ("execute_query", {"sql": "SELECT 1", "dryRun": True}),
            ("execute_query", {"sql": ENDLESS}),
        ),
        "excel": Server(*python("excel-mcp-server", "stdio"), ("list_workbooks", {"directory": str(files)})),
        "office-word": Server(
            *python("office-word-mcp-server", program="word_mcp_server"),
            ("list_available_documents", {"directory": str(files)}),
        ),
        "duckduckgo": Server(*python("duckduckgo-mcp-server"), nothing),
        "sqlite": Server(
            *old("mcp-server-sqlite", "--db-path", str(folder / "a.db")),
            ("read_query", {"query": "SELECT 6 * 7 AS answer"}),
            ("read_query", {}),
            ("read_query", {"query": f"SELECT * FROM ({ENDLESS})"}),
        ),
        "cli": Server(
            *old("cli-mcp-server", ALLOWED_DIR=str(files), **anything, COMMAND_TIMEOUT="600"),
            ("run_command", {"command": "cat a.txt"}),
            ("run_command", {"cmd": "ls"}),
            ("run_command", {"command": "sleep 600"}),
        ),
        "text-editor": Server(
            *old("mcp-text-editor"),
            ("get_text_file_contents", {"files": [{"file_path": str(files / "a.txt"), "ranges": [{"start": 1}]}]}),
        ),
        "calculator": Server(*old("mcp-server-calculator"), ("calculate", {"expression": "6 * 7"})),
        "shell": Server(
            *old("mcp-shell-server", ALLOW_COMMANDS="cat,sleep"),
            ("shell_execute", {"command": ["cat", "a.txt"], "directory": str(files)}),
            ("shell_execute", {"command": 5}),
            ("shell_execute", {"command": ["sleep", "600"], "directory": str(files), "timeout": 600}),
        ),
    }


# Preparation.


def install(folder: Path) -> None:
    if not (folder / "installed").exists():
        (folder / "package.json").write_text('{"name": "servers", "private": true}')
        run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", *NPM], folder)
        for place, packages in PYPI.items():
            venv.create(folder / place, with_pip=True, clear=True)
            pip = [str(folder / place / "bin" / "pip"), "--disable-pip-version-check", "--quiet"]
            run([*pip, "install", *packages], folder)
        (folder / "installed").touch()
    (folder / "files").mkdir(exist_ok=True)
    (folder / "files" / "a.txt").write_text("hello\n")
    if not (folder / "repository").exists():
        run(["git", "init", "--quiet", "repository"], folder)
        who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
        run(["git", *who, "commit", "--quiet", "--allow-empty", "-m", "first"], folder / "repository")


def run(command: Sequence[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def version(folder: Path, package: str) -> str:
    described = folder / "node_modules" / package / "package.json"
    if described.exists():
        return str(json.loads(described.read_text())["version"])
    for place in PYPI:
        for found in distributions(path=[str(path) for path in (folder / place).glob("lib/python*/site-packages")]):
            if found.metadata["Name"].lower().replace("_", "-") == package:
                return found.version
    return "?"


class Pages(http.server.BaseHTTPRequestHandler):
    """A page that never comes, and others."""

    def do_GET(self) -> None:
        if self.path == "/slow":
            time.sleep(3600)
        self.send_response(200)
        self.send_header("content-type", "text/plain")
        self.end_headers()
        self.wfile.write(b"a page\n")

    def log_message(self, *_: Any) -> None:
        return


# With both clients.


def with_sdk(folder: Path, chosen: Mapping[str, Server]) -> dict[str, Any]:
    asked = {name: {**one.entry, "calls": [one.good] if one.good[0] else []} for name, one in chosen.items()}
    command = [str(folder / "python" / "bin" / "python"), str(HERE / "with_sdk.py")]
    with (folder / "with_sdk.log").open("wb") as log:
        done = subprocess.run(command, cwd=folder, input=json.dumps(asked).encode(), stdout=subprocess.PIPE, stderr=log)
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers


def config_of(name: str, entry: Mapping[str, Any]) -> ServerConfig:
    return parse_entry(name, {**entry, "startupTimeout": 60}, Source("mcp.json", "user"), os.environ, str(Path.home()))


async def listed(folder: Path, name: str, server: Server) -> list[Any]:
    """The tools as tau has them."""
    program = McpProgram(fresh(folder / "agent"), str(folder), os.environ)
    ours = program.server(config_of(name, server.entry))
    try:
        await ours.start()
        return list(ours.listing.tools) if ours.listing is not None else []
    finally:
        await ours.close(2)


def fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


class Session:
    """A session of tau with one server; the model makes scripted calls."""

    def __init__(self) -> None:
        self.results: list[tuple[str, bool]] = []
        self.started = asyncio.Event()
        self.states: list[str] = []

    def saw(self, event: object) -> None:
        match event:
            case events.ToolStart():
                self.started.set()
            case events.ToolEnd(result=result, is_error=is_error):
                text = "\n".join(block.text for block in result.content if isinstance(block, Text))
                self.results.append((text, is_error))
            case events.McpServerUpdate(state=state):
                self.states.append(str(state))

    def open(self, folder: Path, name: str, entry: Mapping[str, Any], calls: Sequence[Call | None]) -> Any:
        """None among the calls ends a prompt."""
        prefix = f"mcp__{name.replace('-', '_')}__"
        script: list[Any] = [
            {"text": "done"}
            if call is None
            else {"blocks": [{"tool": prefix + call[0].replace("-", "_"), "arguments": call[1]}]}
            for call in calls
        ]
        env = {**entry.get("env", {}), MARK: name}
        return tau.open(
            folder,
            script=script,
            session=False,
            agent_dir=fresh(folder / "agent"),
            mcp_servers={name: {**entry, "env": env, "startupTimeout": 60}},
            on_event=self.saw,
        )


async def compared(folder: Path, name: str, server: Server, theirs: Mapping[str, Any]) -> tuple[int, str, str]:
    """The number of tools, and what differs in the lists and in the results."""
    tools = await listed(folder, name, server)
    if "error" in theirs:
        return len(tools), f"the official client: {theirs['error']}", ""
    offered, _ = parse_tools(theirs["tools"])
    changed, others = changed_tools(offered, tools)
    lists = f"differ: {', '.join([*changed, *others])}" if changed or others else "equal"
    if not server.good[0]:
        return len(tools), lists, "-"
    session = Session()
    async with session.open(folder, name, server.entry, [server.good, None]) as agent:
        await agent.restart_mcp_server(name)
        await agent.prompt("go")
    text, is_error = session.results[0]
    wanted = "\n".join(block.get("text", "") for block in theirs["results"][0]["content"])
    same = text.strip() == (wanted.strip() or NOTHING) and is_error == theirs["results"][0]["isError"]
    kind = "equal, an error" if is_error else "equal"
    return len(tools), lists, kind if same else f"differ: {text[:200]!r}, {wanted[:200]!r}"


# Faults.


def processes(name: str) -> list[int]:
    """The processes of a server, by the mark in their environment."""
    found = []
    mark = f"{MARK}={name}".encode()
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdigit() and mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


async def faults(folder: Path, name: str, server: Server) -> list[str]:
    """What happened at a wrong call, an abort, a kill in a call, and what is left."""
    assert server.wrong is not None and server.slow is not None
    good, wrong, slow = server.good, server.wrong, server.slow
    calls = [good, wrong, None, slow, good, good, None, slow, good, None]
    session, row = Session(), []
    async with session.open(folder, name, {**server.entry, "timeout": TIMEOUT_S}, calls) as agent:
        await agent.restart_mcp_server(name)
        await agent.prompt("wrong")
        (right, failed), (text, refused) = session.results
        row.append("an error" if refused and not failed else f"not refused: {text[:100]}")
        row.append(await given_up(agent, session, right))
        row.append(await killed(agent, session, name, right))
    until = time.monotonic() + END_S
    while (left := processes(name)) and time.monotonic() < until:
        await asyncio.sleep(0.05)
    return [*row, str(len(left))]


async def begun(agent: Any, session: Session) -> asyncio.Future[Any]:
    session.started.clear()
    prompt: asyncio.Future[Any] = asyncio.ensure_future(agent.prompt("slow"))
    await session.started.wait()
    await asyncio.sleep(1)  # until the server is at work
    if prompt.done():
        raise SystemExit(f"the slow call has ended: {session.results}")
    return prompt


async def given_up(agent: Any, session: Session, right: str) -> str:
    prompt = await begun(agent, session)
    began = time.monotonic()
    await agent.abort()
    await asyncio.wait([prompt])
    ended = time.monotonic() - began
    began = time.monotonic()
    await agent.prompt("good")
    waited = time.monotonic() - began
    timed_out = "next call timed out, then " if "No answer within" in session.results[-2][0] else ""
    again = "started again, " if any("was started again" in text for text, _ in session.results[-2:]) else ""
    return f"{ended:.2f} s; {timed_out}{again}next call {_outcome(session, right)} in {waited:.1f} s"


async def killed(agent: Any, session: Session, name: str, right: str) -> str:
    prompt = await begun(agent, session)
    for process in processes(name):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    began = time.monotonic()
    seen = len(session.results)
    while len(session.results) == seen:
        await asyncio.sleep(0.01)
    ended = time.monotonic() - began
    what = "an error" if session.results[seen][1] else "no error"
    await prompt
    return f"{what} in {ended:.2f} s; next call {_outcome(session, right)}"


def _outcome(session: Session, right: str) -> str:
    text, is_error = session.results[-1]
    return "ok" if not is_error and text.endswith(right) else f"FAILED: {text[:100]}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Run real MCP servers beside the official client.")
    parser.add_argument("--folder", type=Path, default=Path("build/mcp-servers"))
    parser.add_argument("names", nargs="*", metavar="NAME", help="servers to run; all by default")
    given = parser.parse_args()
    folder = given.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    install(folder)
    pages = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    pages.daemon_threads = True
    threading.Thread(target=pages.serve_forever, daemon=True).start()
    known = servers(folder, f"http://127.0.0.1:{pages.server_port}/slow")
    chosen = {name: one for name, one in known.items() if not given.names or name in given.names}
    theirs = with_sdk(folder, chosen)
    failures = 0
    print("| server | package | version | tools | list | result |\n| --- | --- | --- | --- | --- | --- |")
    for name, server in chosen.items():
        count, lists, results = asyncio.run(compared(folder, name, server, theirs[name]))
        failures += not (lists == "equal" and results.startswith(("equal", "-")))
        print(
            f"| {name} | {server.package} | {version(folder, server.package)} | {count} | {lists} | {results} |",
            flush=True,
        )
    print("\n| server | wrong call | abort | kill in the call | processes left |\n| --- | --- | --- | --- | --- |")
    for name, server in chosen.items():
        if server.slow is not None:
            row = asyncio.run(faults(folder, name, server))
            failures += row[0] != "an error" or row[3] != "0" or "FAILED" in "".join(row) or "no error" in row[2]
            print("| " + " | ".join([name, *row]) + " |", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
