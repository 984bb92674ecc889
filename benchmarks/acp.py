"""Start of `tau acp` beside two adapters of npm and tau's own RPC mode: one interleaved run, medians.

    python -m benchmarks.acp [--rounds 9] [--json FILE]

Measured are the times from the start of the process to the response to `initialize`, and to `session/new`; and the
memory (PSS of the process and its children) with one idle session. The limits are those of docs/acp.md. pi-acp with the
pi that it starts, and claude-agent-acp, which opens no session without an account, come from npm and live outside the
tree, in ~/.cache/tau-bench or where TAU_BENCH_CACHE says.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.peers import TAU

PACKAGES = (
    "pi-acp@0.0.34",
    "@earendil-works/pi-coding-agent@0.87.1",
    "@agentclientprotocol/claude-agent-acp@0.99.1",
    "node@22",
)
PAUSE_S = 0.5  # before a start: processes of the one before it may still be ending
LIMITS = (
    ("tau acp, initialize", "pi-acp, initialize", 0.75),
    ("tau acp, initialize", "claude-agent-acp, initialize", 0.75),
    ("tau acp, initialize", "tau --mode rpc, get_state", 1.15),
    ("tau acp, session/new", "pi-acp, session/new", 0.15),
    ("tau acp, memory MB", "pi-acp, memory MB", 0.35),
)


class Contender(NamedTuple):
    name: str
    argv: Sequence[str]
    path: str  # folders of programs that come first
    opens_sessions: bool = True  # without an account


def peers() -> list[Contender]:
    """The adapters, installed if there is npm; none if there is none."""
    if shutil.which("npm") is None:
        return []
    cache = Path(os.environ.get("TAU_BENCH_CACHE") or Path.home() / ".cache" / "tau-bench") / "acp-adapters"
    if not (cache / "done").exists():
        cache.mkdir(parents=True, exist_ok=True)
        (cache / "package.json").write_text('{"name": "peers", "private": true}')
        subprocess.run(["npm", "install", "--silent", "--no-fund", "--no-audit", *PACKAGES], cwd=cache, check=True)
        (cache / "done").touch()
    programs = cache / "node_modules" / ".bin"
    node = next((cache / "node_modules").glob("node-bin*/bin/node"), None) or programs / "node"

    def adapter(name: str, opens_sessions: bool) -> Contender:
        return Contender(
            name, [str(node), str((programs / name).resolve())], f"{node.parent}:{programs}", opens_sessions
        )

    return [adapter("pi-acp", True), adapter("claude-agent-acp", False)]


class Agent:
    """A started program that is asked one thing after another."""

    def __init__(self, contender: Contender, home: Path) -> None:
        kept = {name: os.environ[name] for name in ("LANG",) if name in os.environ}
        path = f"{contender.path}:{os.environ['PATH']}" if contender.path else os.environ["PATH"]
        own = {"HOME": str(home), "PI_CODING_AGENT_DIR": str(home / "agent"), "PI_OFFLINE": "1"}
        time.sleep(PAUSE_S)
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            contender.argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**kept, **own, "PATH": path, "PI_SKIP_VERSION_CHECK": "1"},
            cwd=home / "work",
        )

    def ask(self, message: dict[str, Any]) -> float:
        """Milliseconds from the start of the program to the answer."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            answer = json.loads(line)
            if answer.get("id") == message["id"] and "method" not in answer:
                assert "error" not in answer, answer
                return (time.perf_counter() - self.began) * 1000
        raise AssertionError(f"{message['method']} was not answered")

    def memory(self) -> float:
        """PSS in MB of the process and its children."""
        return sum(_pss(pid) for pid in _family(self.process.pid)) / 1024

    def end(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(3)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def _family(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children")
    below = [int(word) for word in children.read_text().split()] if children.exists() else []
    return [pid, *(one for child in below for one in _family(child))]


def _pss(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/smaps_rollup").read_text().partition("Pss:")[2].split()[0])
    except (OSError, ValueError, IndexError):
        return 0


def measure_acp(contender: Contender, home: Path, found: dict[str, list[float]]) -> None:
    agent = Agent(contender, home)
    try:
        initialize = {"protocolVersion": 1, "clientCapabilities": {}}
        took = agent.ask({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": initialize})
        found.setdefault(f"{contender.name}, initialize", []).append(took)
        if not contender.opens_sessions:
            return
        new = {"cwd": str(home / "work"), "mcpServers": []}
        took = agent.ask({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": new})
        found.setdefault(f"{contender.name}, session/new", []).append(took)
        time.sleep(1.0)  # until it is idle
        found.setdefault(f"{contender.name}, memory MB", []).append(agent.memory())
    finally:
        agent.end()


def measure_rpc(home: Path, found: dict[str, list[float]]) -> None:
    agent = Agent(Contender("rpc", [TAU, "--mode", "rpc"], ""), home)
    try:
        took = agent.ask({"id": "q", "type": "get_state", "method": "get_state"})
        found.setdefault("tau --mode rpc, get_state", []).append(took)
    finally:
        agent.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    contenders = [Contender("tau acp", [str(Path(TAU).with_name("tau")), "acp"], "")]
    contenders += peers()
    found: dict[str, list[float]] = {}
    for at in range(given.rounds + 1):
        into = found if at else {}  # the first round warms the files up
        for contender in contenders:
            with tempfile.TemporaryDirectory() as folder:
                home = Path(folder)
                for name in ("agent", "work"):
                    (home / name).mkdir()
                (home / "agent" / "auth.json").write_text('{"anthropic": {"type": "api_key", "key": "sk-none"}}')
                measure_acp(contender, home, into)
                if contender.name == "tau acp":
                    measure_rpc(home, into)
    medians = {name: statistics.median(values) for name, values in found.items()}
    for name, value in medians.items():
        print(f"{name:32} median {value:8.1f}   min {min(found[name]):8.1f}")
    held = True
    for one, two, limit in LIMITS:
        if two in medians:
            ratio = medians[one] / medians[two]
            held = held and ratio <= limit
            print(f"{one} / {two}: {ratio:.2f} (at most {limit}) {'holds' if ratio <= limit else 'OVER'}")
    if given.json:
        given.json.write_text(json.dumps({"rounds": given.rounds, "median": medians, "all": found}, indent=1) + "\n")
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
