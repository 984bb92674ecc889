"""Drive `tau acp` with public ACP clients through one whole task: an edit with a permission question, a tool of an MCP
server, and a cancel.

    python scripts/acp_clients                    all of them, with the `tau` beside this Python
    python scripts/acp_clients python acpx        some of: python, typescript, acpx

`python` is the official library of PyPI (agent-client-protocol), `typescript` the official SDK of npm
(@agentclientprotocol/sdk), `acpx` a command-line client of npm. They are installed into a cache folder. Needs npm, node
and pip. The model is scripted, so no key and no network are needed. Prints the transcript; exit code 1 on a failure.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tau" / "acp-clients"
NPM = ("@agentclientprotocol/sdk@2.4.0", "acpx@0.19.1", "node@22")
PIP = ("agent-client-protocol==0.12.1",)
KEYS = re.compile(r"(_API_KEY|_TOKEN|_BASE_URL)$|^(ANTHROPIC|AWS|AZURE|GCLOUD|GOOGLE|OLLAMA|OPENAI|PI|TAU)_")
TIMEOUT_S = 120.0
CHANGED = "one\n2\nthree\n"


def install() -> None:
    if not (CACHE / "installed").exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        (CACHE / "package.json").write_text('{"name": "clients", "private": true, "type": "module"}')
        subprocess.run(["npm", "install", "--silent", "--no-fund", "--no-audit", *NPM], cwd=CACHE, check=True)
        subprocess.run([sys.executable, "-m", "venv", CACHE / "venv"], check=True)
        subprocess.run([CACHE / "venv" / "bin" / "pip", "install", "--quiet", *PIP], check=True)
        (CACHE / "installed").touch()


def node() -> str:
    return str(CACHE / "node_modules" / "node" / "bin" / "node")


def lay_out(folder: Path) -> dict[str, str]:
    """The folders of one client, its model's script, and the environment."""
    for name in ("home", "agent", "work"):
        (folder / name).mkdir()
    (folder / "work" / "a.txt").write_text("one\ntwo\nthree\n")
    call = {"tool": "edit", "arguments": {"path": "a.txt", "oldText": "two", "newText": "2"}, "id": "edit_1"}
    echo = {"tool": "mcp__lab__echo", "arguments": {"text": "over MCP"}, "id": "mcp_1"}
    sleep = {"tool": "bash", "arguments": {"command": "sleep 60"}, "id": "bash_1"}
    answers = [
        {"blocks": [{"thinking": "Let me see."}, {"text": "I change the file."}, call]},
        {"blocks": [echo]},
        {"text": "Done."},
        {"blocks": [{"text": "Now I wait."}, sleep]},
        {"text": "Again."},
    ]
    (folder / "script.json").write_text(json.dumps({"answers": answers}))
    server = {
        "command": sys.executable,
        "args": [str(ROOT / "tests" / "support" / "mcp_server.py"), '{"tools": ["echo"]}'],
    }
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"lab": server}}))
    kept = {name: value for name, value in os.environ.items() if not KEYS.search(name)}
    own = {"HOME": str(folder / "home"), "PI_CODING_AGENT_DIR": str(folder / "agent")}
    task = {"TASK_AGENT": json.dumps(agent(folder)), "TASK_MCP": json.dumps({"name": "lab", "env": [], **server})}
    return {**kept, **own, **task}


def agent(folder: Path, *more: str) -> list[str]:
    tau = str(Path(sys.executable).parent / "tau")
    script = str(folder / "script.json")
    return [tau, "acp", "--model", "scripted", "--script", script, "--permissions", "ask", *more]


def with_python(folder: Path, environment: dict[str, str]) -> None:
    _run([str(CACHE / "venv" / "bin" / "python"), str(HERE / "with_python.py")], folder, environment)


def with_typescript(folder: Path, environment: dict[str, str]) -> None:
    program = CACHE / "with_sdk.mjs"  # beside the packages that it imports
    shutil.copyfile(HERE / "with_sdk.mjs", program)
    _run([node(), str(program)], folder, environment)


def with_acpx(folder: Path, environment: dict[str, str]) -> None:
    """A command per step. acpx has no setting for MCP servers, so tau reads them from a file."""
    acpx = [node(), str((CACHE / "node_modules" / ".bin" / "acpx").resolve())]
    command = " ".join(agent(folder, "--mcp-config", str(folder / "mcp.json")))
    whole = [*acpx, "--cwd", str(folder / "work"), "--approve-all", "--format", "json", "--agent", command]
    done = _run([*whole, "exec", "change the file"], folder, environment, shown=False)
    for kind in ("edit_1", "mcp_1", "over MCP", "end_turn"):
        assert kind in done, f"{kind} is not in the output of acpx: {done[-2000:]}"
    print("acpx exec: edit and MCP tool done, end_turn")
    # A session that stays, and a cancel from another process.
    _run([*whole, "sessions", "new"], folder, environment, shown=False)
    environment = {**environment}
    (folder / "work" / "a.txt").write_text("one\ntwo\nthree\n")
    _run([*whole, "prompt", "change it again"], folder, environment, shown=False)
    waiting = subprocess.Popen(
        [*whole, "prompt", "wait"], cwd=folder / "work", env=environment, stdout=subprocess.PIPE, text=True
    )
    assert waiting.stdout is not None
    heard = ""
    for line in waiting.stdout:
        heard += line
        if '"in_progress"' in line:
            break
    began = time.monotonic()
    _run([*whole, "cancel"], folder, environment, shown=False)
    heard += waiting.stdout.read()
    waiting.wait(TIMEOUT_S)
    assert "cancelled" in heard, heard[-2000:]
    print(f"acpx cancel: cancelled after {time.monotonic() - began:.1f} s")
    _run([*whole, "sessions", "close"], folder, environment, shown=False)


def _run(argv: list[str], folder: Path, environment: dict[str, str], *, shown: bool = True) -> str:
    done = subprocess.run(
        argv, cwd=folder / "work", env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    if shown:
        print(done.stdout, end="")
    if done.returncode:
        raise AssertionError(f"{' '.join(argv[:4])} … ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


CLIENTS: dict[str, Callable[[Path, dict[str, str]], None]] = {
    "python": with_python,
    "typescript": with_typescript,
    "acpx": with_acpx,
}


def main() -> int:
    chosen = sys.argv[1:] or list(CLIENTS)
    install()
    failed = False
    for name in chosen:
        print(f"== {name}")
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            environment = lay_out(folder)
            try:
                CLIENTS[name](folder, environment)
                assert (folder / "work" / "a.txt").read_text() == CHANGED, "the file was not changed"
            except (AssertionError, subprocess.TimeoutExpired) as error:
                print(f"FAILED: {error}")
                failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
