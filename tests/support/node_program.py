"""The Node that tests of TypeScript extensions use: TAU_NODE, or `node` on PATH. Without one they are skipped.

TAU_NODE=/opt/node-26/bin/node make test ARGS=tests/node
"""

from __future__ import annotations

import os
import shutil
import subprocess
import textwrap
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from support.extension_processes import limits
from support.rpc_process import Agent, Json
from tau.records.settings import Settings

REQUIRED = (22, 18)


@cache
def _problem(program: str | None) -> str:
    if program is None:
        return "there is no node: TypeScript extensions were NOT tried"
    shown = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60).stdout.strip()
    version = tuple(int(part) for part in shown.lstrip("v").split(".")[:2])
    return "" if version >= REQUIRED else f"node is {shown}, too old: TypeScript extensions were NOT tried"


def node() -> str:
    """The path of the program; skips the test if there is none."""
    program = os.environ.get("TAU_NODE") or shutil.which("node")
    if problem := _problem(program):
        pytest.skip(f"{problem} (TAU_NODE names another)")
    assert program is not None
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
