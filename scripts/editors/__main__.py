"""Run editors with `tau acp`, headless, as a user would, and print a table of what works.

    python scripts/editors acpx toad
    python scripts/editors codecompanion agentic avante agent-shell --folder ~/plugins

`acpx` is installed from npm, `toad` from PyPI (it needs Python 3.14), below a cache folder. The others are run from
copies in a folder: codecompanion.nvim, agentic.nvim, avante.nvim, plenary.nvim and nui.nvim for Neovim 0.12;
agent-shell, acp.el and shell-maker for Emacs 30. Nothing of them is in this repository. `--late SECONDS` waits that
long before the first question is answered. The model is a server on this machine, so no key is needed. Prints each step
that fails; exit code 1 if there is one.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from model import HELLO, model_server

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "acp.md"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tau" / "editors"
ACPX, TOAD = "acpx@0.19.1", "batrachian-toad==0.6.20"
KEYS = re.compile(r"(_API_KEY|_TOKEN|_BASE_URL)$|^(ANTHROPIC|AWS|AZURE|GCLOUD|GOOGLE|OLLAMA|OPENAI|PI|TAU)_")
STEPS = ("start", "prompt", "question", "deny", "diff", "error", "cancel", "model", "mode", "commands", "list", "load")
TIMEOUT_S = 600.0
PLUGINS = {
    "codecompanion": ["codecompanion.nvim", "plenary.nvim"],
    "agentic": ["agentic.nvim"],
    "avante": ["avante.nvim", "plenary.nvim", "nui.nvim"],
}


class Row(NamedTuple):
    """`state` is ok, bad, or - for what a client does not have."""

    step: str
    state: str
    seen: str = ""


class Place:
    """The folders of one client and its environment."""

    def __init__(self, folder: Path, models: object, arguments: argparse.Namespace) -> None:
        self.folder, self.work = folder, folder / "work"
        for name in ("home", "agent", "work"):
            (folder / name).mkdir()
        (self.work / "a.txt").write_text("one\ntwo\nthree\n")
        (folder / "agent" / "models.json").write_text(json.dumps(models))
        kept = {name: value for name, value in os.environ.items() if not KEYS.search(name)}
        own = {"HOME": str(folder / "home"), "PI_CODING_AGENT_DIR": str(folder / "agent"), "TAU_WARM_DIR": ""}
        self.environment = {**kept, **own, "XDG_CACHE_HOME": str(folder / "home" / "cache")}
        self.arguments = arguments
        tau = str(Path(sys.executable).parent / "tau")
        self.command = [tau, "acp", "--model", "lab/one", "--permissions", "ask"]

    def run(self, argv: list[str], **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            argv,
            cwd=self.work,
            env={**self.environment, **more},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    def exists(self, name: str) -> bool:
        return (self.work / name).exists()


def scripted(place: Place, argv: list[str], **task: object) -> Iterator[Row]:
    """Run an editor with a script of this folder, which writes a line for each step."""
    results = place.folder / "results"
    # agentic.nvim and avante.nvim hand their agent no variable but PATH and those of their configuration.
    names = ("HOME", "PI_CODING_AGENT_DIR", "TAU_WARM_DIR")
    common: dict[str, object] = {
        "command": place.command,
        "work": str(place.work),
        "results": str(results),
        "late": place.arguments.late,
        "environment": {name: place.environment[name] for name in names},
    }
    try:
        done = place.run(argv, EDITOR_TASK=json.dumps({**common, **task}))
        how = f"it ended with {done.returncode}: {(done.stderr or done.stdout)[-1500:]}"
    except subprocess.TimeoutExpired:
        how = f"it took longer than {TIMEOUT_S:g} s"
    lines = results.read_text().splitlines() if results.exists() else []
    yield from (Row(*json.loads(line)) for line in lines)
    if len(lines) < len(STEPS):
        yield Row("end", "bad", how)


def neovim(name: str) -> Callable[[Place], Iterator[Row]]:
    def run(place: Place) -> Iterator[Row]:
        folders = [str(place.arguments.folder / plugin) for plugin in PLUGINS[name]]
        argv = [*shlex.split(place.arguments.neovim), "--headless", "-u", "NONE", "-i", "NONE", "-S"]
        setup = codecompanion_lines(place.command) if name == "codecompanion" else None
        yield from scripted(place, [*argv, str(HERE / "neovim.lua")], client=name, folders=folders, setup=setup)

    return run


def codecompanion_lines(command: list[str]) -> str:
    """The lines of the page, with this command: the value that `setup` is given."""
    lines = re.findall(r'require\("codecompanion"\)\.setup\((.*?)\n\}\)', PAGE.read_text(), re.DOTALL)[0]
    given = ", ".join(json.dumps(word) for word in command)
    return "return " + lines.replace('{ "tau", "acp" }', f"{{ {given} }}") + "\n}"


def agent_shell(place: Place) -> Iterator[Row]:
    folders = [str(place.arguments.folder / name) for name in ("acp.el", "shell-maker", "agent-shell")]
    argv = [*shlex.split(place.arguments.emacs), "-Q", "--batch"]
    for folder in folders:
        argv += ["-L", folder]
    yield from scripted(place, [*argv, "-l", str(HERE / "agent_shell.el")])


def acpx(place: Place) -> Iterator[Row]:
    """A command for each step. A question is answered by its flags: approve everything, or deny it."""
    if not (CACHE / "node_modules" / "acpx").exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        (CACHE / "package.json").write_text('{"name": "editors", "private": true}')
        npm = ["npm", "install", "--silent", "--no-fund", "--no-audit", ACPX, "node@22"]
        subprocess.run(npm, cwd=CACHE, check=True)
    program = [str(CACHE / "node_modules" / "node" / "bin" / "node"), str(CACHE / "node_modules" / ".bin" / "acpx")]
    agent = ["--agent", shlex.join(place.command)]

    def call(*words: str, flag: str = "--approve-all") -> str:
        done = place.run([*program, "--cwd", str(place.work), flag, *agent, *words])
        return done.stdout + done.stderr

    def row(step: str, seen: str, *, fine: bool) -> Row:
        return Row(step, "ok" if fine else "bad", "" if fine else seen[-600:])

    began = time.monotonic()
    seen = call("sessions", "new")
    yield row("start", seen, fine=bool(seen.strip()) and time.monotonic() - began < 30)
    seen = call("prompt", "say hello")
    yield row("prompt", seen, fine=HELLO in seen)
    seen = call("prompt", "run it")
    yield row("question", seen, fine=place.exists("ran") and "touch ran" in seen)
    seen = call("prompt", "deny it", flag="--deny-all")
    yield row("deny", seen, fine=not place.exists("denied") and "touch denied" in seen)
    seen = call("prompt", "edit it")
    yield row("diff", seen, fine="2" in (place.work / "a.txt").read_text() and "a.txt" in seen)
    seen = call("prompt", "fail")
    yield row("error", seen, fine="the parameter x is wrong" in seen and '{"error"' not in seen)
    whole = [*program, "--cwd", str(place.work), "--approve-all", *agent, "prompt", "wait"]
    waiting = subprocess.Popen(whole, cwd=place.work, env=place.environment, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not place.exists("waiting") and time.monotonic() < deadline:
        time.sleep(0.1)
    call("cancel")
    seen, _ = waiting.communicate(timeout=60)
    yield row("cancel", seen, fine=place.exists("waiting"))
    call("set", "model", "lab/two")
    seen = call("prompt", "who")
    yield row("model", seen, fine="I am two." in seen)
    call("set-mode", "auto")
    seen = call("prompt", "run again", flag="--deny-all")
    yield row("mode", seen, fine=place.exists("again"))
    yield Row("commands", "-")
    seen = call("sessions", "list")
    yield row("list", seen, fine="open" in seen or str(place.work) in seen)
    seen = call("sessions", "read")
    yield row("load", seen, fine=HELLO in seen)


def toad(place: Place) -> Iterator[Row]:
    venv = CACHE / "toad"
    if not (venv / "installed").exists():
        subprocess.run([*shlex.split(place.arguments.python), "-m", "venv", str(venv)], check=True)
        subprocess.run([str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", TOAD], check=True)
        (venv / "installed").touch()
    yield from scripted(
        place, [*shlex.split(place.arguments.python), str(HERE / "with_toad.py")], venv=str(venv.resolve())
    )


CLIENTS: dict[str, Callable[[Place], Iterator[Row]]] = {
    "acpx": acpx,
    "toad": toad,
    **{name: neovim(name) for name in PLUGINS},
    "agent-shell": agent_shell,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clients", nargs="*", default=["acpx", "toad"], help=", ".join(CLIENTS))
    parser.add_argument("--folder", type=Path, default=Path(), help="has the plugins, each in a folder of its name")
    parser.add_argument("--neovim", default="nvim")
    parser.add_argument("--emacs", default="emacs")
    parser.add_argument("--python", default="python3.14", help="for Toad")
    parser.add_argument("--late", type=float, default=0, help="seconds before the first question is answered")
    arguments = parser.parse_args()
    arguments.folder = arguments.folder.absolute()
    unknown = [name for name in arguments.clients if name not in CLIENTS]
    if unknown:
        parser.error(f"there is no client {unknown[0]}; there are {', '.join(CLIENTS)}")
    failed = False
    with model_server() as models:
        for name in arguments.clients:
            with tempfile.TemporaryDirectory() as scratch:
                place = Place(Path(scratch), models, arguments)
                rows = list(CLIENTS[name](place))
            print(f"{name}: {', '.join(f'{row.step} {row.state}' for row in rows)}", flush=True)
            for row in rows:
                if row.state == "bad":
                    failed = True
                    print(f"  {row.step}: {row.seen}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
