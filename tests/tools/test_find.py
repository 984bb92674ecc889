from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from support.search_kit import lines_of, search_outcome, without_note
from support.virtual_clock import Clock, played
from tau.errors import ToolError
from tau.records.base import UNSET
from tau.records.events import Outcome
from tau.records.messages import Text
from tau.runtime.machine.local import LocalMachine
from tau.tools import ToolContext
from tau.tools import find as find_tool
from tau.tools.find import TOOL as FIND
from tau.tools.find import FirstPaths, GlobFilter, PathCollector, search
from tau.tools.ripgrep import find_ripgrep


def find(cwd: Path, rg: str | None, pattern: str, **args: Any) -> Outcome:
    return search_outcome(find_tool, cwd, rg, {"pattern": pattern, **args})


def paths(cwd: Path, rg: str | None, pattern: str, **args: Any) -> list[str]:
    return lines_of(find(cwd, rg, pattern, **args))


def put(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    put(tmp_path, "a.py", "src/b.py", "src/lib/c.py", "src/lib/-d.py", "src.txt", ".h/e.py", "build/f.py", ".git/g.py")
    (tmp_path / ".gitignore").write_text("build/\n")
    return tmp_path


def test_names_match_at_any_depth_in_the_order_of_the_paths(project: Path, rg: str | None) -> None:
    assert find(project, rg, "*.py") == Outcome([Text(".h/e.py\na.py\nsrc/b.py\nsrc/lib/-d.py\nsrc/lib/c.py")], UNSET)


def test_folders_have_a_slash_and_stand_before_what_is_in_them(project: Path, rg: str | None) -> None:
    assert paths(project, rg, "{src*,lib,b.*}") == ["src/", "src/b.py", "src/lib/", "src.txt"]


@pytest.mark.promise("F24")
def test_a_pattern_that_begins_with_a_dash_is_a_pattern(project: Path, rg: str | None) -> None:
    assert paths(project, rg, "-d.py") == ["src/lib/-d.py"]


def test_a_folder_can_be_named(project: Path, rg: str | None) -> None:
    assert paths(project, rg, "*.py", path="src/lib") == ["-d.py", "c.py"]
    assert paths(project, rg, "*.py", path="build") == ["f.py"]


def test_nothing_found_is_said(project: Path, rg: str | None) -> None:
    assert find(project, rg, "*.rs") == Outcome([Text("No files found matching pattern")], UNSET)


def test_a_limit_shows_the_first_ones(project: Path, rg: str | None) -> None:
    said = ".h/e.py\na.py\n\n[2 results limit reached. Use limit=4 for more, or refine pattern]"
    assert find(project, rg, "*.py", limit=2) == Outcome([Text(said)], {"resultLimitReached": 2})
    assert find(project, rg, "*.py", limit=5) == find(project, rg, "*.py")


def test_long_lists_are_cut(tmp_path: Path, rg: str | None) -> None:
    put(tmp_path, *(f"{number:03}{'x' * 220}" for number in range(300)))
    outcome = find(tmp_path, rg, "*", limit=10**9)
    [block] = outcome.content
    assert isinstance(block, Text)
    assert (len(block.text.split("\n")) - 2, block.text[-24:]) == (228, "\n\n[50.0KB limit reached]")
    assert list(outcome.details) == ["truncation"]


def test_nested_ignore_files_and_those_above_count_in_a_repository(tmp_path: Path, rg: str | None) -> None:
    put(tmp_path, "r/.git/HEAD", "r/s/a.log", "r/s/keep.log", "r/s/b.txt", "r/s/t/keep.log")
    (tmp_path / "r/.gitignore").write_text("*.log\n")
    (tmp_path / "r/s/.gitignore").write_text("!keep.log\n/t/keep.log\n")
    (tmp_path / ".gitignore").write_text("*.txt\n")
    assert paths(tmp_path / "r/s", rg, "*") == [".gitignore", "b.txt", "keep.log"]
    assert paths(tmp_path / "r", rg, "*.*", path="s") == [".gitignore", "b.txt", "keep.log"]


def test_loops_pipes_and_odd_names_are_no_trouble(tmp_path: Path, rg: str | None) -> None:
    put(tmp_path, "a/x", "a/two\nlines", os.fsdecode(b"a/\xff"), "a/[x]")
    (tmp_path / "a/loop").symlink_to("..")
    os.mkfifo(tmp_path / "a/pipe")
    assert paths(tmp_path, rg, "**/*", path="a") == ["[x]", "two", "lines", "x", "\ufffd"]


def test_what_cannot_be_searched_is_said(project: Path, rg: str | None) -> None:
    def failure(pattern: str, **args: Any) -> str:
        with pytest.raises(ToolError) as failed:
            find(project, rg, pattern, **args)
        return str(failed.value)

    assert failure("*", path="nope") == f"Path not found: {project}/nope"
    assert failure("*", path="a.py") == f"Not a directory: {project}/a.py"
    assert failure("[") == "The pattern '[' cannot be read: there is a [ without its ]"


def test_the_tool_finds_ripgrep_by_itself(project: Path) -> None:
    async def main() -> Outcome:
        return await FIND.run({"pattern": "a.py"}, ToolContext(LocalMachine(), str(project), lambda outcome: None))

    assert without_note(asyncio.run(main()), find_tool, find_ripgrep("/")) == Outcome([Text("a.py")], UNSET)


def test_a_cancelled_search_is_killed(tmp_path: Path) -> None:
    slow = tmp_path / "rg"
    slow.write_text("#!/bin/sh\necho $$ > pid\nexec sleep 60\n")
    slow.chmod(0o755)

    async def main(clock: Clock) -> None:
        context = ToolContext(LocalMachine(), str(tmp_path), lambda outcome: None)
        task = asyncio.create_task(search({"pattern": "*"}, context, str(slow)))
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().endswith("\n"):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    played(main)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


# Without a search


@pytest.mark.parametrize(
    ("glob", "path", "is_folder", "found"),
    [
        ("b.py", "src/b.py", False, True),
        ("src/*.py", "src/b.py", False, True),
        ("src/*.py", "x/src/b.py", False, True),
        ("src/*.py", "src/lib/c.py", False, False),
        ("src/**/*.py", "src/lib/c.py", False, True),
        ("./src/*.py", "src/b.py", False, True),
        ("**/*.py", "b.py", False, True),
        ("src/", "src", True, True),
        ("src/", "src", False, False),
        ("/top/*.py", "b.py", False, True),
        ("/top/*.py", "src/b.py", False, False),
        ("readme*", "README.md", False, True),
        ("Readme*", "README.md", False, False),
    ],
)
def test_what_a_pattern_looks_for(glob: str, path: str, is_folder: bool, found: bool) -> None:
    wanted = GlobFilter(glob, "/top")
    assert (wanted.is_folder(path) if is_folder else bool(wanted.files([path]))) is found


def test_a_listing_can_come_byte_by_byte() -> None:
    found = FirstPaths(10)
    names = PathCollector(found, GlobFilter("*", "/"))
    for at in range(len(listing := b"a/b/c\0a/d\0e\0")):
        assert names.take(listing[at : at + 1])
    assert found.paths() == ["a/", "a/b/", "a/b/c", "a/d", "e"]


def test_only_the_first_are_kept() -> None:
    found = FirstPaths(3)
    for number in range(10_000, 0, -1):
        found.add([f"{number:05}"])
    assert (found.paths(), found.more) == (["00001", "00002", "00003"], True)
