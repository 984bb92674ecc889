from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from tau.errors import ToolError
from tau.records.base import UNSET, plain
from tau.records.events import Outcome
from tau.records.messages import Text
from tau.runtime.machine.local import LocalMachine
from tau.tools import ToolContext
from tau.tools.ls import TOOL as LS


def ls(cwd: Path, **args: Any) -> Outcome:
    async def main() -> Outcome:
        return await LS.run(args, ToolContext(LocalMachine(), str(cwd), lambda outcome: None))

    return asyncio.run(main())


def failure(cwd: Path, **args: Any) -> str:
    with pytest.raises(ToolError) as failed:
        ls(cwd, **args)
    return str(failed.value)


@pytest.fixture
def some(tmp_path: Path) -> Path:
    for name in ("b.txt", "A.txt", ".hidden", "empty.txt"):
        (tmp_path / name).touch()
    (tmp_path / "Sub").mkdir()
    (tmp_path / "link").symlink_to("Sub")
    (tmp_path / "nowhere").symlink_to("gone")
    return tmp_path


def test_names_are_in_alphabetical_order_and_folders_have_a_slash(some: Path) -> None:
    assert ls(some) == Outcome([Text(".hidden\nA.txt\nb.txt\nempty.txt\nlink/\nSub/")], UNSET)


@pytest.mark.parametrize("path", ["Sub", "@Sub", "link", None])
def test_a_folder_can_be_named(path: str | None, some: Path) -> None:
    (some / "Sub" / "x").touch()
    assert ls(some if path else some / "Sub", path=path) == Outcome([Text("x")], UNSET)


def test_an_empty_folder_is_said(some: Path) -> None:
    assert ls(some, path="Sub") == Outcome([Text("(empty directory)")], UNSET)


def test_a_limit_says_how_to_see_more(some: Path) -> None:
    said = ".hidden\n\n[1 entries limit reached. Use limit=2 for more]"
    assert ls(some, limit=1) == Outcome([Text(said)], {"entryLimitReached": 1})
    assert ls(some, limit=6) == ls(some)


def test_long_lists_are_cut(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"{number:03}{'x' * 220}").touch()
    outcome = ls(tmp_path)
    [text] = outcome.content
    assert isinstance(text, Text)
    rows, notice = text.text.split("\n\n")
    assert notice == "[50.0KB limit reached]"
    assert [row[:3] for row in rows.split("\n")] == [f"{number:03}" for number in range(228)]
    assert plain(outcome.details) == {
        "truncation": {
            "content": rows,
            "truncated": True,
            "truncatedBy": "bytes",
            "totalLines": 300,
            "totalBytes": 300 * 224 - 1,
            "outputLines": 228,
            "outputBytes": 228 * 224 - 1,
            "lastLinePartial": False,
            "firstLineExceedsLimit": False,
            "maxLines": 2**53 - 1,
            "maxBytes": 51200,
        }
    }


def test_what_is_no_folder_is_said(some: Path) -> None:
    assert failure(some, path="nope") == f"Path not found: {some}/nope"
    assert failure(some, path="b.txt") == f"Not a directory: {some}/b.txt"
    assert failure(some, limit=float("inf")) == "limit must be a whole number, not inf"


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_folder_that_may_not_be_read_is_said(some: Path) -> None:
    (some / "Sub").chmod(0)
    assert failure(some, path="Sub").startswith("Cannot read directory: EACCES")


def test_names_that_are_no_text_break_nothing(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"a\xff")).touch()
    assert ls(tmp_path) == Outcome([Text("a\ufffd")], UNSET)
