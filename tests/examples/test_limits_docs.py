"""What docs/budgets.md, docs/structured-output.md and docs/record-replay.md show is tried."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from client import WITHIN, surroundings
from tau.cli.flags import FLAGS
from tau.core.schema import CHECKED, TOLD
from tau.records.base import decode
from tau.records.commands import AnyCommand
from tau.records.events import AnyEvent

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {name: (DOCS / f"{name}.md").read_text() for name in ("budgets", "structured-output", "record-replay")}


def blocks(language: str) -> list[str]:
    return [
        found
        for page in PAGES.values()
        for found in re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    ]


@pytest.mark.parametrize("code", blocks("python"))
def test_python_runs_and_prints_what_it_says(code: str, tmp_path: Path) -> None:
    env = surroundings(tmp_path)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path / "work",
        env=env,
        capture_output=True,
        text=True,
        timeout=WITHIN,
    )
    promised = re.findall(r"print\(.*\)  # (.+)", code)
    assert (done.returncode, done.stderr, done.stdout.splitlines()) == (0, "", promised)


@pytest.mark.parametrize("line", [line for block in blocks("json") for line in block.splitlines()])
def test_json_is_a_command_or_an_event(line: str) -> None:
    shape: Any = AnyCommand if '"id"' in line else AnyEvent
    assert decode(shape, line.encode()) is not None


def test_flags_are_those_of_the_program() -> None:
    known = {flag.name for flag in FLAGS}
    assert set(re.findall(r"--([a-z][a-z-]+)", "".join(PAGES.values()))) <= known


def test_every_keyword_that_is_checked_or_told_is_named() -> None:
    assert {word for word in CHECKED | TOLD if f"`{word}`" not in PAGES["structured-output"]} == set()
