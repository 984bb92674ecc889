"""Every row of what the terminal interface promises names tests that exist."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from support.terminal_rows import ROWS

FOLDER = Path(__file__).parent.parent


@cache
def names_in(file: str) -> frozenset[str]:
    tree = ast.parse((FOLDER / file).read_text(encoding="utf-8"))
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )


@pytest.mark.parametrize("section", ROWS)
def test_every_row_has_tests_that_exist(section: str) -> None:
    missing = [
        f"{row}: {test}"
        for row, tests in ROWS[section].items()
        for test in tests or ("no test",)
        if (parts := test.partition("::"))[2] not in (names_in(parts[0]) if (FOLDER / parts[0]).is_file() else ())
    ]
    assert missing == []
