from __future__ import annotations

import glob
from pathlib import Path

import pytest

from tau.store.path_lists import MAX_GLOB_FILES, PathList


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("a.md", "b.txt", ".hidden.md", "one/a.md", "one/two/c.md", "one/.secret/d.md", "x[1]/e.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to("one")
    (tmp_path / "broken").symlink_to("nowhere")
    return tmp_path


@pytest.mark.parametrize(
    "pattern",
    """
    * *.md .* .*.md ** **/*.md **/**/*.md one/** one/**/c.md */*.md */two/*.md **/two ?.md [ab].* [!a].* b* **/.*/*
    x[[]1]/* nothing/*.md a.md/* **/one/**/*.md *o*/**/*.md [ **/** ?/*
    """.split(),
)
def test_globs_find_what_the_glob_module_finds(tree: Path, pattern: str) -> None:
    paths, problems = PathList((f"{tree}/{pattern}",)).paths()
    if glob.has_magic(pattern):
        assert paths == sorted({Path(path) for path in glob.glob(f"{tree}/{pattern}", recursive=True)}, key=str)
    assert problems == []


def test_one_glob_has_a_limited_number_of_files(tmp_path: Path) -> None:
    for number in range(MAX_GLOB_FILES + 1):
        (tmp_path / str(number)).touch()
    assert len(PathList((f"{tmp_path}/*",)).paths()[0]) == MAX_GLOB_FILES


def test_the_search_of_all_globs_of_a_list_ends(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"link{number}").symlink_to(".")
    (tmp_path / "file").touch()
    lines = tuple(f"{tmp_path}/**/zzqq{number}*" for number in range(1000))
    problem = f"{lines[0]} stands for too many files or folders: only those found so far are used"
    assert PathList((f"{tmp_path}/fil?", *lines)).paths() == ([tmp_path / "file"], [problem])


def test_globs_in_other_folders_can_be_left_out(tree: Path) -> None:
    lines = (f"{tree}/*.md", f"{tree}/one/*.md", f"{tree}/one*/*.md", f"{tree}/b.txt")
    assert PathList(lines).paths(within=tree / "one") == ([tree / "one" / "a.md", tree / "b.txt"], [])


def test_what_cannot_be_a_path_is_left_out(tree: Path) -> None:
    lines = (f"{tree}/a\0b", f"{tree}/a\0*", f"{tree}/\ud800*", f"{tree}/a.md")
    assert PathList(lines).paths() == ([tree / "a.md"], [])
