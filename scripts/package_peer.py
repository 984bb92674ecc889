"""Install the same packages with tau and with real pi, and compare folders and settings after each command.

    PYTHONPATH=tests python scripts/package_peer.py --pi FOLDER [--node PROGRAM]

FOLDER has pi 0.87.1 as npm installs it (npm install @earendil-works/pi-coding-agent@0.87.1). npm uses a registry on
loopback, git a local repository. Each program then starts with what the other one installed. Exit code 1 if something
differs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from support.npm_registry import Registry, npm_variables, serve_registry

SKILL = "---\nname: {0}\ndescription: about {0}\n---\n{0}\n"
EXTENSION = 'export default function (pi) {{ pi.registerCommand("{}", {{ handler: async () => {{}} }}); }}\n'
COMMANDS = (
    "install npm:a@1.0.0",
    "install npm:b",
    "install ./c",
    "install git:example.org/me/g",
    "install npm:@me/d@^1",
    "remove npm:a",
    "UPDATE",
    "install git:example.org/me/g@v1",
    "remove ./c",
)
PI = "node_modules/@earendil-works/pi-coding-agent"


class Program(NamedTuple):
    name: str
    words: Sequence[str]
    update: Sequence[str]


class World:
    """A home for one program."""

    def __init__(self, folder: Path, program: Program, registry: Registry, node: str) -> None:
        self.folder, self.program = folder, program
        self.agent, self.work = folder / "home" / ".pi" / "agent", folder / "work"
        self.agent.mkdir(parents=True)
        _write(self.work / "c", {"prompts/c.md": "c"})
        self.env = npm_variables(folder / "home", registry.url)
        self.env["PATH"] = f"{os.path.dirname(node)}:{self.env['PATH']}"
        config = folder / "gitconfig"
        config.write_text(f'[url "file://{folder.parent}/repos/"]\n\tinsteadOf = https://example.org/\n')
        self.env |= {"GIT_CONFIG_GLOBAL": str(config), "GIT_CONFIG_SYSTEM": os.devnull, "PI_TELEMETRY": "0"}

    def run(self, command: str) -> int:
        words = self.program.update if command == "UPDATE" else command.split()
        return subprocess.run(
            [*self.program.words, *words], cwd=self.work, env=self.env, capture_output=True, text=True
        ).returncode

    def state(self) -> dict[str, Any]:
        """Files, settings and npm's own files, as far as both programs should agree on them."""
        npm = self.agent / "npm"
        return {
            "files": [str(path) for path in _files(self.agent)],
            "settings": _json(self.agent / "settings.json").get("packages"),
            "package.json": _json(npm / "package.json"),
            "package-lock.json": _json(npm / "package-lock.json"),
            "ignored": [(npm / ".gitignore").read_text() if npm.exists() else ""],
        }

    def commands(self, program: Program, node: str) -> list[str]:
        """The slash commands that a program offers with what is installed here."""
        settings = _json(self.agent / "settings.json") | {"extensionHost": {"node": node}}
        (self.agent / "settings.json").write_text(json.dumps(settings))
        done = subprocess.run(
            [*program.words, "--mode", "rpc", "--no-session"],
            cwd=self.work,
            env={**self.env, "PI_OFFLINE": "1", "ANTHROPIC_API_KEY": "x"},
            input='{"type":"get_commands","id":"1"}\n',
            capture_output=True,
            text=True,
            timeout=120,
        )
        rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        answer = next((row for row in rows if row.get("id") == "1"), {})
        return sorted(row["name"] for row in answer.get("data", {}).get("commands", ()))


def _files(folder: Path) -> list[Path]:
    """The files that both programs should have. pi starts npm also in repositories that need no package."""
    skipped = ("packages.lock.json", "settings.json", "trust.json", "auth.json", "models-store.json", "bin", "sessions")
    found = sorted(
        path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts
    )
    by_npm = [path for path in found if path.parts[0] == "git" and path.name == "package-lock.json"]
    return [path for path in found if path.parts[0] not in skipped and path not in by_npm]


def _json(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def _publish(registry: Registry) -> None:
    extension = EXTENSION.format("from-a")
    registry.publish("dep", "1.0.0", {"index.js": ""})
    registry.publish("a", "1.0.0", {"index.js": extension}, pi={"extensions": ["index.js"]}, dependencies={"dep": "1"})
    registry.publish("a", "1.1.0", {"index.js": extension}, pi={"extensions": ["index.js"]})
    peers = {"@earendil-works/pi-coding-agent": "*"}
    command = EXTENSION.format("from-b")
    registry.publish("b", "1.0.0", {"ext/index.ts": command}, pi={"extensions": ["ext"]}, peerDependencies=peers)
    registry.publish("@me/d", "1.0.0", {"skills/d/SKILL.md": SKILL.format("d")}, keywords=["pi-package"])


def _repository(folder: Path) -> None:
    _write(folder, {"skills/g/SKILL.md": SKILL.format("g"), "package.json": '{"name":"g","version":"1.0.0"}'})
    names = {f"GIT_{who}_{what}": "t@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "1"], ["tag", "v1"]):
        subprocess.run(["git", *words], cwd=folder, env={**os.environ, **names}, check=True)
    _write(folder, {"prompts/g2.md": "later"})
    for words in (["add", "-A"], ["commit", "-qm", "2"]):
        subprocess.run(["git", *words], cwd=folder, env={**os.environ, **names}, check=True)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pi", required=True, type=Path)
    parser.add_argument("--node", default=shutil.which("node"))
    arguments = parser.parse_args()
    cli = arguments.pi / PI / json.loads((arguments.pi / PI / "package.json").read_text())["bin"]["pi"]
    pi = Program("pi", [arguments.node, str(cli)], ["update", "--extensions"])
    tau = Program("tau", [str(Path(sys.executable).parent / "tau")], ["update"])
    differences = 0
    with tempfile.TemporaryDirectory() as scratch, serve_registry() as registry:
        _publish(registry)
        _repository(Path(scratch, "repos", "me", "g"))
        worlds = [World(Path(scratch, one.name), one, registry, arguments.node) for one in (pi, tau)]
        for command in COMMANDS:
            if command == "UPDATE":
                registry.publish("b", "1.2.0", {"ext/index.ts": EXTENSION.format("from-b")}, pi={"extensions": ["ext"]})
            codes = [world.run(command) for world in worlds]
            states = [world.state() for world in worlds]
            unequal = [name for name in states[0] if states[0][name] != states[1][name]]
            print(f"{command:<34} exit codes {codes}  {'equal' if not unequal else 'DIFFERENT: ' + ', '.join(unequal)}")
            for name in unequal:
                print(f"  pi:  {states[0][name]}\n  tau: {states[1][name]}")
            differences += bool(unequal) or codes[0] != codes[1]
        for world in worlds:
            found = {program.name: world.commands(program, arguments.node) for program in (pi, tau)}
            names = {name: [one for one in offered if not one.startswith("llama")] for name, offered in found.items()}
            print(f"installed by {world.program.name}, commands of: {names}")
            differences += names["pi"] != names["tau"]
    print("no differences" if not differences else f"{differences} differences")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
