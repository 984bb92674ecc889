"""What these pages name is there. Their code is run by test_code_blocks.py."""

from __future__ import annotations

import re
from pathlib import Path

from tau.cli.flags import FLAGS
from tau.core.checks.schema import CHECKED, TOLD

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {name: (DOCS / f"{name}.md").read_text() for name in ("budgets", "structured-output", "record-replay")}


def test_flags_are_those_of_the_program() -> None:
    known = {flag.name for flag in FLAGS}
    assert set(re.findall(r"--([a-z][a-z-]+)", "".join(PAGES.values()))) <= known


def test_every_keyword_that_is_checked_or_told_is_named() -> None:
    assert {word for word in CHECKED | TOLD if f"`{word}`" not in PAGES["structured-output"]} == set()
