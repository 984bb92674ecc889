"""Try MCP clients with `tau mcp serve`, and print a table of what was used and the result.

    python scripts/mcp_clients.py [--folder build/mcp-clients] [NAME ...]

Installs the clients below the folder: the Python SDK (`mcp`) and `fastmcp` in environments of their own, and the MCP
inspector from npm if Node is here. Needs a package index. Exit code 1 if one of them does not work.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable
from pathlib import Path

TAU = str(Path(sys.executable).parent / "tau")
TIMEOUT_S = 120
HANGS = {"blocks": [{"tool": "bash", "arguments": {"command": "sleep 600"}}]}
DONE = {"text": "Done."}
# Runs with the Python of a client; its arguments are the mode and the command line of the server.
SDK_PROGRAM = """
import asyncio, json, sys, time
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import ElicitResult

mode, hanging, command, *args = sys.argv[1:]
used = []

async def allow(context, params):
    return ElicitResult(action="accept", content={"answer": "Allow once"})

async def main():
    server = StdioServerParameters(command=command, args=args)
    async with Client(stdio_client(server), mode=mode, elicitation_callback=allow) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names == ["tau", "tau_reply", "bash"], names
        used.append("tools/list")
        steps = []
        async def progress(done, total, message): steps.append(message)
        if hanging == "yes":
            call = asyncio.create_task(client.call_tool("tau", {"prompt": "go"}, progress_callback=progress))
            while not steps:
                await asyncio.sleep(0.01)
            began = time.monotonic()
            call.cancel()
            await asyncio.wait([call])
            gone = await client.call_tool("bash", {"command": "pgrep -f '[s]leep 600' | wc -l"})
            assert time.monotonic() - began < 1, time.monotonic() - began
            assert gone.content[0].text.strip() == "0", gone
            used.extend(["progress", "cancel"])
            return
        first = await client.call_tool("tau", {"prompt": "go"}, progress_callback=progress)
        assert first.content[0].text == "Done.", first
        id = first.structured_content["sessionId"]
        again = await client.call_tool("tau_reply", {"sessionId": id, "prompt": "on"})
        assert again.structured_content["sessionId"] == id
        many = await asyncio.gather(*(client.call_tool("tau", {"prompt": "go"}) for _ in range(20)))
        assert all(one.content[0].text == "Done." for one in many)
        assert (await client.call_tool("bash", {"command": "echo hi"})).content[0].text == "hi\\n"
        used.extend(["tau", "tau_reply", "20 calls at once", "bash, asked by elicitation"])
        resources = (await client.list_resources()).resources
        assert (await client.read_resource(resources[0].uri)).contents[0].text
        used.append("resources")

asyncio.run(main())
print(json.dumps(used))
"""
FAST_PROGRAM = """
import asyncio, json, sys
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

_, _, command, *args = sys.argv[1:]

async def main():
    async def allow(message, response_type, params, context):
        return {"answer": "Allow once"}
    async with Client(StdioTransport(command, args), elicitation_handler=allow) as client:
        assert [tool.name for tool in await client.list_tools()] == ["tau", "tau_reply", "bash"]
        first = await client.call_tool("tau", {"prompt": "go"})
        assert first.content[0].text == "Done."
        id = first.structured_content["sessionId"]
        await client.call_tool("tau_reply", {"sessionId": id, "prompt": "on"})
        assert (await client.list_resources())

asyncio.run(main())
print(json.dumps(["tools/list", "tau", "tau_reply", "resources"]))
"""


class Trial:
    """One server of its own for each client, in folders of its own. `script` are the answers of the model."""

    def __init__(self, folder: Path, *script: object) -> None:
        for name in ("work", "agent"):
            (folder / name).mkdir(parents=True)
        (folder / "script.json").write_text(json.dumps({"answers": script}))
        self.cwd = folder / "work"
        self.env = {**os.environ, "PI_CODING_AGENT_DIR": str(folder / "agent")}
        options = ["--tools", "tau,tau_reply,bash", "--model", "scripted", "--script", str(folder / "script.json")]
        self.command = [TAU, "mcp", "serve", *options, "--permissions", "ask"]


def python_client(folder: Path, package: str, program: str, mode: str, *, hanging: bool = False) -> Callable[[], str]:
    def run() -> str:
        python = folder / package / "bin" / "python"
        if not python.exists():
            venv.create(folder / package, with_pip=True)
            subprocess.run([python, "-m", "pip", "install", "--quiet", package], check=True)
        with tempfile.TemporaryDirectory() as scratch:
            trial = Trial(Path(scratch), *([HANGS] if hanging else [DONE]))
            command = trial.command[:-2] if hanging else trial.command
            words = [python, "-c", program, mode, "yes" if hanging else "no", *command]
            return ", ".join(json.loads(_output(words, trial)))

    return run


def inspector(folder: Path) -> str:
    if shutil.which("npm") is None:
        raise LookupError("skipped: there is no npm")
    program = folder / "npm" / "node_modules" / ".bin" / "mcp-inspector"
    if not program.exists():
        (folder / "npm").mkdir(parents=True, exist_ok=True)
        package = "@modelcontextprotocol/inspector"
        subprocess.run(["npm", "install", "--silent", package], cwd=folder / "npm", check=True)
    with tempfile.TemporaryDirectory() as scratch:
        trial = Trial(Path(scratch), DONE)
        words = [program, "--cli", *trial.command, "--method"]
        listed = json.loads(_output([*words, "tools/list"], trial))
        assert [tool["name"] for tool in listed["tools"]] == ["tau", "tau_reply", "bash"], listed
        call = [*words, "tools/call", "--tool-name", "tau", "--tool-arg", "prompt=go"]
        first = json.loads(_output(call, trial))
        assert first["content"][0]["text"] == "Done.", first
        id = first["structuredContent"]["sessionId"]
        again = ["--tool-name", "tau_reply", "--tool-arg", f"sessionId={id}", "--tool-arg", "prompt=on"]
        second = json.loads(_output([*words, "tools/call", *again], trial))
        assert second["structuredContent"]["sessionId"] == id, second
    return "tools/list, tau, tau_reply in another process"


def _output(words: list[object], trial: Trial) -> str:
    done = subprocess.run(
        list(map(str, words)), cwd=trial.cwd, env=trial.env, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    if done.returncode != 0:
        raise AssertionError(f"exit code {done.returncode}: {done.stderr.strip().splitlines()[-1:]}")
    return done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--folder", type=Path, default=Path("build/mcp-clients"))
    given = parser.parse_args()
    folder = given.folder.absolute()
    trials = {
        **{f"mcp {mode}": python_client(folder, "mcp", SDK_PROGRAM, mode) for mode in ("legacy", "auto", "2026-07-28")},
        **{
            f"mcp {mode}, cancelled": python_client(folder, "mcp", SDK_PROGRAM, mode, hanging=True)
            for mode in ("legacy", "2026-07-28")
        },
        "fastmcp": python_client(folder, "fastmcp", FAST_PROGRAM, ""),
        "inspector": lambda: inspector(folder),
    }
    failed = 0
    for name, trial in trials.items():
        if given.names and name not in given.names:
            continue
        try:
            print(f"ok    {name:28}{trial()}", flush=True)
        except LookupError as reason:
            print(f"--    {name:28}{reason}", flush=True)
        except (AssertionError, OSError, subprocess.SubprocessError, ValueError) as error:
            failed += 1
            print(f"FAIL  {name:28}{error}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
