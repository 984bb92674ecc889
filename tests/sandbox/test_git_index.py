"""The index as git itself writes it, in every version and form, and as an attacker would."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from tau.runtime.sandbox.git_index import BadIndex, submodule_links
from tau.runtime.sandbox.git_layout import gitdir_of, read_config, repository_of_worktree, submodules_of

LINKS = ["deep/er/vendored", "sub module", "vendored", "y" * 4200]
OID = "1" * 40

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder: Path, *words: str, stdin: str | None = None) -> str:
    settings = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "protocol.file.allow=always")
    done = subprocess.run(
        ["git", *settings, *words], cwd=folder, input=stdin, capture_output=True, text=True, check=True
    )
    return done.stdout


def repository(folder: Path, *how: str, version: int = 2) -> Path:
    """With 300 files and some links to commits that nobody has."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", *how)
    git(folder, "config", "index.version", str(version))
    (folder / "dir").mkdir(exist_ok=True)
    for number in range(300):
        (folder / "dir" / f"file-{number:03}").write_text("x")
    git(folder, "add", "dir")
    link(folder, *LINKS)
    return folder


def link(folder: Path, *paths: str) -> None:
    size = 64 if "sha256" in (folder / ".git" / "config").read_text() else 40
    git(folder, "update-index", "--index-info", stdin="".join(f"160000 {'1' * size}\t{path}\n" for path in paths))


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize("format", ["sha1", "sha256"])
def test_links_are_found_in_every_version(tmp_path: Path, version: int, format: str) -> None:
    made = repository(tmp_path / "r", "--object-format", format, version=version)
    if version == 3:  # git writes it only if an entry needs it
        (made / "new").write_text("x")
        git(made, "add", "--intent-to-add", "new")
    assert (made / ".git" / "index").read_bytes()[4:8] == version.to_bytes(4, "big")
    assert sorted(submodule_links(str(made / ".git"))) == sorted(LINKS)


@pytest.mark.parametrize("version", [2, 4])
def test_links_are_found_in_a_split_index(tmp_path: Path, version: int) -> None:
    made = repository(tmp_path / "r", version=version)
    git(made, "config", "splitIndex.maxPercentChange", "100")
    git(made, "update-index", "--split-index")
    link(made, "added later")
    # What was a file becomes a link: its entry has no name of its own, but that of the shared index.
    git(made, "update-index", "--cacheinfo", f"160000,{OID},dir/file-007")
    git(made, "update-index", "--force-remove", "dir/file-003")
    assert b"link" in (made / ".git" / "index").read_bytes() and list((made / ".git").glob("sharedindex.*"))
    assert "dir/file-007" in git(made, "ls-files", "-s").split("160000", 1)[1]
    assert sorted(submodule_links(str(made / ".git"))) == sorted([*LINKS, "added later", "dir/file-007"])


def test_links_are_found_in_a_sparse_index(tmp_path: Path) -> None:
    made = repository(tmp_path / "r")
    git(made, "update-index", "--force-remove", *LINKS)
    git(made, "commit", "-qm", "x")
    link(made, *LINKS)
    git(made, "sparse-checkout", "set", "--cone", "--sparse-index", "other")
    assert b"sdir" in (made / ".git" / "index").read_bytes()
    assert sorted(submodule_links(str(made / ".git"))) == sorted(LINKS)


def test_a_conflict_about_a_link_counts(tmp_path: Path) -> None:
    made = repository(tmp_path / "r")
    lines = "".join(f"160000 {OID} {stage}\tfought over\n" for stage in (1, 2, 3))
    git(made, "update-index", "--index-info", stdin=lines)
    assert "fought over" in submodule_links(str(made / ".git"))


def test_a_repository_without_an_index_has_no_links(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    assert submodule_links(str(tmp_path / ".git")) == []


def test_a_mode_that_git_takes_for_a_link_is_one(tmp_path: Path) -> None:
    """git looks at the type bits only, and does not correct the others when it reads."""
    made = repository(tmp_path / "r")
    index = made / ".git" / "index"
    data = index.read_bytes()
    at = data.index(b"\0\0\xe0\0")
    index.write_bytes(data[:at] + b"\0\0\xe1\xa4" + data[at + 4 :])
    assert sorted(submodule_links(str(made / ".git"))) == sorted(LINKS)


def test_a_damaged_index_is_an_error_and_never_takes_long(tmp_path: Path) -> None:
    made = repository(tmp_path / "r", version=4)
    index = made / ".git" / "index"
    data = index.read_bytes()
    for broken in (b"", b"DIRC", data[:100], data[:-21], b"XXXX" + data[4:], data[:8] + b"\xff" * 4 + data[12:]):
        index.write_bytes(broken)
        with pytest.raises(BadIndex):
            submodule_links(str(made / ".git"))
    chance = random.Random(1)
    for _ in range(300):
        changed = bytearray(data)
        for _ in range(chance.randrange(1, 8)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        index.write_bytes(changed)
        try:
            submodule_links(str(made / ".git"))
        except BadIndex:
            continue


def test_what_is_no_regular_file_is_not_waited_for(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    os.mkfifo(tmp_path / ".git" / "index")
    with pytest.raises(BadIndex):
        submodule_links(str(tmp_path / ".git"))


def test_submodules_of_submodules_are_found(tmp_path: Path) -> None:
    inner, middle, outer = (repository(tmp_path / name) for name in ("inner", "middle", "outer"))
    for made in (inner, middle, outer):
        git(made, "update-index", "--force-remove", *LINKS)
        git(made, "commit", "-qm", "x")
    git(middle, "submodule", "add", "-q", str(inner), "in/inner")
    git(middle, "commit", "-qm", "x")
    git(outer, "submodule", "add", "-q", str(middle), "m")
    git(outer, "submodule", "update", "-q", "--init", "--recursive")
    assert (outer / "m" / "in" / "inner" / ".git").is_file()
    (outer / ".gitmodules").unlink()
    found = {path for path, is_link in submodules_of(str(outer), str(outer)) if is_link}
    assert found == {f"{outer}/m", f"{outer}/m/in/inner"}
    within = {path for path, is_link in submodules_of(str(outer), f"{outer}/m/in") if is_link}
    assert within == {f"{outer}/m", f"{outer}/m/in/inner"}


SPELLINGS = {
    "plain": '[submodule "a"]\n\tpath = one\n',
    "a comment behind it": '[submodule "a"]\n\tpath = one # here\n',
    "another case": '[SubModule "a"]\n\tPATH=one\n',
    "quotes inside": '[submodule "a"]\n\tpath = o"n"e\n',
    "section and key on one line": '[submodule "a"] path = one\n',
    "a section with a bracket": '[submodule "a]b\\"c"]path=one;x\n',
    "carriage returns": '[submodule "a"]\r\n\tpath = one\r\n',
    "a byte order mark": '\ufeff[submodule "a"]\n\tpath = one\n',
    "a line that goes on": '[submodule "a"]\n\tpath = o\\\nne\n',
    "a key without a value before it": '[submodule "a"]\n\tshallow\n\tpath = one\n',
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_gitmodules_is_read_as_git_reads_it(tmp_path: Path, spelling: str) -> None:
    (tmp_path / ".gitmodules").write_text(SPELLINGS[spelling], newline="")
    keys = git(tmp_path, "config", "--file", ".gitmodules", "--get-regexp", r"submodule\..*\.path").split()
    assert keys[-1] == "one"
    assert [value for key, value in read_config(SPELLINGS[spelling]) if key == "path"] == ["one"]


@pytest.mark.parametrize("value", ['"a b "  ', r"a\tb", r"a\"b", r"a\\b", '" # "x', "a  b  ; c", r'a"\n"  ', "ä"])
def test_a_value_is_what_git_says_it_is(tmp_path: Path, value: str) -> None:
    text = f"[x]\n\tpath = {value}\n"
    (tmp_path / "file").write_text(text)
    said = git(tmp_path, "config", "--file", "file", "--null", "--get", "x.path").rstrip("\0")
    assert list(read_config(text)) == [("path", said)]


def test_a_linked_work_tree_belongs_to_its_repository(tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    git(main, "update-index", "--force-remove", *LINKS)
    git(main, "commit", "-qm", "x")
    git(main, "worktree", "add", "-q", str(tmp_path / "linked"))
    assert repository_of_worktree(str(tmp_path / "linked")) == str(main / ".git")
    git(tmp_path, "clone", "-q", "--bare", str(main), str(tmp_path / "bare"))
    git(tmp_path / "bare", "worktree", "add", "-q", str(tmp_path / "of-bare"))
    assert repository_of_worktree(str(tmp_path / "of-bare")) == str(tmp_path / "bare")
    assert repository_of_worktree(str(main)) is None
    # As git writes it with worktree.useRelativePaths.
    where = Path(gitdir_of(str(tmp_path / "linked" / ".git")) or "")
    (where / "gitdir").write_text("../../../../linked/.git\n")
    assert repository_of_worktree(str(tmp_path / "linked")) == str(main / ".git")
    # A repository among other files is not one that is granted as a whole.
    (tmp_path / "bare" / "letters").mkdir()
    assert repository_of_worktree(str(tmp_path / "of-bare")) is None


def laid_out(folder: Path, gitdir: str, /, **files: str) -> None:
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / ".git").write_text(f"gitdir: {gitdir}\n")
    where = folder / "sub" / gitdir
    where.mkdir(parents=True)
    for name, text in files.items():
        (where / name).write_text(text)


def test_a_git_file_does_not_make_what_is_around_it_a_repository(tmp_path: Path) -> None:
    mark = str(tmp_path / "b" / "sub" / ".git")
    laid_out(tmp_path / "a", "../x", gitdir=".git", commondir="..")
    laid_out(tmp_path / "b", "../worktrees/x", gitdir=mark, commondir="../../..")
    laid_out(tmp_path / "c", "../worktrees/x", gitdir=".git", commondir="../..")
    laid_out(tmp_path / "d", "../worktrees/x", gitdir=str(tmp_path / "d" / "sub" / ".git"), commondir="../..")
    assert [repository_of_worktree(str(tmp_path / name / "sub")) for name in "abcd"] == [None] * 4
