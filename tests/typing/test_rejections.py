"""Mistakes in programs that use tau are found by type checkers: an error on every marked line, and on no other."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
from dataclasses import dataclass
from typing import Any

import tau
from tau import hooks, sync


@dataclass
class Point:
    x: int


async def results(agent: tau.Agent) -> None:
    result = await agent.prompt("p", output_schema=Point)
    wrong: str = result.output  # wrong
    result.output.x  # wrong
    result.require_output().z  # wrong
    plain = await agent.prompt("p")
    plain.require_output().x  # wrong
    if result.stop_reason == "toolUse":  # wrong
        pass
    result.okay  # wrong
    await agent.prompt("p", output_schema="Point")  # wrong
    await agent.prompt("p", output_schema=3)  # wrong
    await agent.prompt("p", while_busy="followUp")  # wrong


def synchronous(agent: sync.Agent) -> None:
    number: int = agent.prompt("p", output_schema=Point).require_output()  # wrong
    agent.on("tool_cal", print)  # wrong


def opening() -> None:
    tau.open(modle="x")  # wrong
    tau.open(thinking="huge")  # wrong
    tau.open(tools="read", keys=1)  # wrong


def number_answer(event: hooks.ToolCallEvent) -> int:
    return 1


def other_event(event: hooks.ContextEvent) -> None:
    pass


def handlers(agent: tau.Agent) -> None:
    agent.on("tool_cal")  # wrong
    agent.on("tool_call", number_answer)  # wrong
    agent.on("tool_call", other_event)  # wrong
    agent.on("tool_call")(other_event)  # wrong


def misspelled(event: hooks.ToolCallEvent) -> hooks.ToolCallAnswer:
    event.tool_nmae  # wrong
    return {"blok": True}  # wrong
"""
LINES = PROGRAM.splitlines()
WRONG = {number for number, line in enumerate(LINES, 1) if line.endswith("# wrong")}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    return file


def wrong_lines(*command: str) -> set[int]:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout + done.stderr
    return {int(number) for number in re.findall(r"program\.py:(\d+):.*error", done.stdout)}


@pytest.mark.timeout(400)
def test_mypy_finds_every_mistake(program: Path) -> None:
    assert wrong_lines(sys.executable, "-m", "mypy", "--strict", str(program)) == WRONG


@pytest.mark.timeout(400)
def test_pyright_finds_every_mistake(program: Path, tmp_path: Path) -> None:
    pyright = shutil.which("pyright", path=str(Path(sys.executable).parent)) or shutil.which("pyright")
    if pyright is None:
        pytest.skip("pyright is not installed")
    (tmp_path / "pyrightconfig.json").write_text(
        '{"typeCheckingMode": "standard", "reportUnusedExpression": false, "reportUnnecessaryComparison": true}'
    )
    assert wrong_lines(pyright, "--project", str(tmp_path), "--pythonpath", sys.executable) == WRONG
