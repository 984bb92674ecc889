"""examples/README.md has every example, with a command for each."""

from __future__ import annotations

import re
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
LIST = (EXAMPLES / "README.md").read_text(encoding="utf-8")
PARTS = {"mcp_notes_server"}  # started by another example


def test_every_example_is_listed() -> None:
    assert set(re.findall(r"\]\((\w+\.py)\)", LIST)) == {file.name for file in EXAMPLES.glob("*.py")}


def test_every_example_has_its_command() -> None:
    commands = set(
        re.findall(r"^\| .+ \| `(?:make (\w+)|\.venv/bin/python examples/(\w+)\.py.*)` \|$", LIST, re.MULTILINE)
    )
    programs = {file.stem for file in EXAMPLES.glob("*.py")} - PARTS
    assert {target or name for target, name in commands} == programs
