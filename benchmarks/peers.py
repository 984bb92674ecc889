"""Who is measured: tau of this checkout, and real pi in the versions that are asked for.

Peers come from npm and live outside the tree, in ~/.cache/tau-bench or where
TAU_BENCH_CACHE says: one folder per version, and one for a newer node where a
version needs it. Every start has a home of its own, knows one model, which is
the loopback mock, and looks for no updates: nothing but npm uses the network.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.measure import Program

TAU = str(Path(sys.executable).parent / "pi")
PACKAGES = ("@earendil-works/pi-coding-agent", "@mariozechner/pi-coding-agent")  # it has moved
NEWER_NODE = "22"
MODEL = {
    "id": "m",
    "name": "M",
    "reasoning": False,
    "input": ["text"],
    "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
    "contextWindow": 2_000_000_000,  # so that no session is compacted
    "maxTokens": 4_096,
}
SETTINGS = {"compaction": {"enabled": False}, "retry": {"enabled": False}}
CHOSEN = ("--provider", "bench", "--model", "m")
TOOLS = ("--tools", "read,bash,edit,write")


@dataclass(frozen=True)
class Contender:
    """A program that is measured. `env` is added to what all have."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)

    def start(
        self, home: Path, url: str, *flags: str, env: Mapping[str, str] | None = None, deadline: float = 300.0
    ) -> Program:
        """In RPC mode, with a model at that address. `home` holds all that it writes, its working folder too."""
        self.prepare(home, url)
        argv = [*self.argv, "--mode", "rpc", *CHOSEN, *flags]
        return Program(argv, work(home), self.environment(home, env), deadline)

    def prepare(self, home: Path, url: str) -> None:
        provider = {"baseUrl": url, "api": "anthropic-messages", "apiKey": "none", "models": [MODEL]}
        agent = home / "agent"
        agent.mkdir(exist_ok=True)
        work(home).mkdir(exist_ok=True)
        (agent / "models.json").write_text(json.dumps({"providers": {"bench": provider}}))
        (agent / "settings.json").write_text(json.dumps(SETTINGS))

    def environment(self, home: Path, env: Mapping[str, str] | None = None) -> dict[str, str]:
        """Nothing of the caller's settings and keys."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        own = {"HOME": str(home), "PI_CODING_AGENT_DIR": str(home / "agent")}
        return {**kept, **own, "PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1", **self.env, **(env or {})}


def work(home: Path) -> Path:
    return home / "work"


def tau() -> Contender:
    if not Path(TAU).exists():
        sys.exit(f"There is no {TAU}. Run this by `make bench`, which installs it.")
    return Contender("tau", [TAU])


def peer(version: str) -> Contender:
    """Real pi, from the cache or else from npm."""
    entry = _entry(version) or _install(version)
    return Contender(version, [_node(entry), str(entry[0])])


def cache() -> Path:
    return Path(os.environ.get("TAU_BENCH_CACHE") or Path.home() / ".cache" / "tau-bench")


Entry = tuple[Path, str]  # the program, and which node it wants


def _entry(version: str) -> Entry | None:
    for package in PACKAGES:
        folder = cache() / version / "node_modules" / package
        if (folder / "package.json").exists():
            about = json.loads((folder / "package.json").read_text())
            if about["version"] == version:
                return folder / about["bin"]["pi"], about.get("engines", {}).get("node", "")
    return None


def _install(version: str) -> Entry:
    problems = ""
    for package in PACKAGES:
        problems += _npm(f"{package}@{version}", cache() / version)
        if entry := _entry(version):
            return entry
    sys.exit(f"npm could install pi {version} neither as {' nor as '.join(PACKAGES)}:\n{problems}")


def _node(entry: Entry) -> str:
    """The node of this machine if it is new enough, else npm's own package of a newer one."""
    node, wanted = shutil.which("node"), _numbers(entry[1])
    if node is not None:
        found = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
        if _numbers(found) >= wanted:
            return node
    folder = cache() / f"node{NEWER_NODE}"
    newer = folder / "node_modules" / "node" / "bin" / "node"
    if not newer.exists() and (problems := _npm(f"node@{NEWER_NODE}", folder)):
        sys.exit(f"{entry[0]} needs node {entry[1]}, and npm could not install node@{NEWER_NODE}:\n{problems}")
    return str(newer)


def _npm(package: str, folder: Path) -> str:
    """Install it; what npm says when it cannot."""
    if shutil.which("npm") is None:
        sys.exit(f"There is no npm here to install {package} with")
    print(f"installing {package} in {folder}", file=sys.stderr, flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text('{"private":true}\n')  # or npm would look for one in the folders above
    argv = ["npm", "install", "--no-audit", "--no-fund", "--loglevel", "error", package]
    done = subprocess.run(argv, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return done.stderr if done.returncode else ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:3]))
