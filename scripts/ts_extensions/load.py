"""Loads extensions of pi with tau and with real pi, and compares what they register.

    python scripts/ts_extensions/load.py FOLDER [--node PROGRAM] [--markdown]

FOLDER has real pi and the packages of packages.txt, as npm installs them:

    cd FOLDER
    npm install --ignore-scripts --legacy-peer-deps @earendil-works/pi-coding-agent@0.87.1 $(cat packages.txt)

Nothing of it is kept in this repository. Prints one line per extension; with --markdown, a table.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent.parent / "src"), str(HERE.parent.parent / "tests")]

from support.extension_processes import Found, Lab, limits  # noqa: E402
from tau.runtime.extensions.file_loader import load_extensions  # noqa: E402
from tau.runtime.session.extension_tools import get_builtin_tools  # noqa: E402
from tau.store.extension_files import _package, manifest_entries  # noqa: E402

PI = Path("node_modules/@earendil-works/pi-coding-agent")
KINDS = ("tools", "commands", "flags", "handlers")
# Events that tau does not have. Handlers for them are accepted and never called, as those for unknown events in pi.
UNKNOWN_EVENTS = {"agent_before_settle", "context_with_system", "cache_warming_decision", "provider_stream_event"}


class Extension(NamedTuple):
    name: str
    path: Path
    package: Path | None


def examples(folder: Path) -> Iterator[Extension]:
    """The examples that pi's package contains: files, and folders with an index or a manifest."""
    for path in sorted((folder / PI / "examples" / "extensions").iterdir()):
        if path.suffix == ".ts":
            yield Extension(path.name, path, None)
        elif path.is_dir():
            for found in _package(path):
                yield Extension(path.name, found.path, found.package)


def pi_program(folder: Path) -> list[str]:
    """The file of the program, which is at another place in newer releases."""
    about = json.loads((folder / PI / "package.json").read_text())
    return [str(folder / PI / about["bin"]["pi"])]


def packages(folder: Path) -> Iterator[Extension]:
    for line in (HERE / "packages.txt").read_text().split():
        name = line.rpartition("@")[0] or line
        root = folder / "node_modules" / name
        if not root.is_dir():
            print(f"not installed: {line}", file=sys.stderr)
        elif manifest_entries(root) is None:
            print(f"no extension in {line}", file=sys.stderr)
        for found in _package(root):
            extra = "" if len(manifest_entries(root) or ()) < 2 else f" {found.path.relative_to(root)}"
            yield Extension(line + extra, found.path, found.package)


async def in_tau(extension: Extension) -> dict[str, Any]:
    lab = Lab(limits(load_timeout_ms=60_000))
    lab.answers["get_builtin_tools"] = lambda params: get_builtin_tools(None, None)  # type: ignore[arg-type]
    lab.answers["get_models"] = lambda params: []
    found = [Found(extension.path, package=extension.package)]
    place = {"cwd": "/tmp", "agent_dir": "/nowhere", "mode": "rpc", "has_ui": True}
    loaded = await load_extensions(lab.extensions, found, lab.act, lambda: dict(lab.facts), flags={}, **place)
    try:
        failures = [error.error for error in lab.errors if error.event == "load"]
        if failures:
            return {"error": failures[0]}
        registry = lab.extensions
        return {
            "tools": sorted(registry.tools),
            "commands": sorted(registry.commands),
            "flags": sorted(registry.flags),
            "handlers": sorted(registry.handlers),
        }
    finally:
        await loaded.stop()


def in_pi(node: str, folder: Path, extensions: list[Extension]) -> dict[str, dict[str, Any]]:
    command = [node, str(HERE / "names_in_pi.mjs"), str(folder / PI), *(str(one.path) for one in extensions)]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd="/tmp", timeout=600)
    lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith('{"file"')]
    return {line.pop("file"): line for line in lines}


def differences(here: dict[str, Any], there: dict[str, Any]) -> str:
    if "error" in here or "error" in there:
        if "error" in here and "error" in there:
            return "fails in both"
        return f"fails in {'tau' if 'error' in here else 'pi'}: {(here.get('error') or there.get('error'))!r:.300}"
    found = []
    for kind in KINDS:
        theirs = set(there[kind]) - (UNKNOWN_EVENTS if kind == "handlers" else set())
        if set(here[kind]) != theirs:
            found.append(f"{kind}: tau {sorted(set(here[kind]) - theirs)}, pi {sorted(theirs - set(here[kind]))}")
    return "; ".join(found) or "same"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--node", default="node")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--packages", type=Path, help="another folder with the packages, such as AGENT_FOLDER/npm")
    given = parser.parse_args()
    folder = given.folder.resolve()
    if given.node != "node":
        os.environ["PATH"] = f"{Path(given.node).resolve().parent}{os.pathsep}{os.environ['PATH']}"
    extensions = [one for one in [*examples(folder), *packages(given.packages or folder)] if given.only in one.name]
    theirs = in_pi(given.node, folder, extensions)
    rows = []
    for extension in extensions:
        here = asyncio.run(in_tau(extension))
        there = theirs.get(str(extension.path), {"error": "not loaded"})
        rows.append((extension.name, differences(here, there), *(len(here.get(kind, ())) for kind in KINDS)))
        if not given.markdown:
            print(f"{rows[-1][1]:<12} {extension.name}", flush=True)
    if given.markdown:
        print("| extension | beside pi | tools | commands | flags | events |\n|---|---|---|---|---|---|")
        for row in rows:
            print(f"| {' | '.join(map(str, row))} |")
    same = sum(row[1] == "same" for row in rows)
    print(f"\n{same} of {len(rows)} load and register the same; {len(rows) - same} do not", file=sys.stderr)


if __name__ == "__main__":
    main()
