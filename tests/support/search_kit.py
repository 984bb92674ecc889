"""Runs grep and find with ripgrep and with the fallback, whose results must be the same but for a note."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tau.records.base import replace
from tau.records.events import Outcome
from tau.records.messages import Text
from tau.runtime.machine.local import LocalMachine
from tau.tools import ToolContext
from tau.tools.ripgrep import find_ripgrep

BACK_ENDS = ["ripgrep", "without"]


def back_end(name: str) -> str | None:
    """The path of ripgrep, or None for the fallback. Skips the test if ripgrep is missing."""
    if name == "without":
        return None
    return find_ripgrep("/") or pytest.skip("ripgrep is not installed")


def without_note(outcome: Outcome, tool: ModuleType, rg: str | None) -> Outcome:
    """The outcome without the note of the fallback, after a check that it has the note if and only if `rg` is None."""
    [block] = outcome.content
    assert isinstance(block, Text)
    note = f"\n\n[{tool.WITHOUT_RIPGREP}]"
    assert block.text.endswith(note) is (rg is None)
    return replace(outcome, content=[Text(block.text.removesuffix(note))])


def search_outcome(tool: ModuleType, cwd: Path, rg: str | None, args: dict[str, Any]) -> Outcome:
    """What `grep` or `find` answers, without the note of the fallback."""

    async def main() -> Outcome:
        outcome: Outcome = await tool.search(args, ToolContext(LocalMachine(), str(cwd), lambda outcome: None), rg)
        return outcome

    return without_note(asyncio.run(main()), tool, rg)


def lines_of(outcome: Outcome) -> list[str]:
    [block] = outcome.content
    assert isinstance(block, Text)
    return block.text.split("\n")


def found(text: str) -> str:
    """The text of a search result without the note of the fallback, on a machine with or without ripgrep."""
    return text.partition("\n\n[Searched without ripgrep")[0]
