"""The git branch of the footer, from the files of the repository."""

from __future__ import annotations

import os
from pathlib import Path

from tau.tui.branch import GitBranch


def check_out(git: Path, head: str, at: int) -> None:
    (git / "HEAD").write_text(head)
    os.utime(git / "HEAD", (at, at))


def test_the_branch_is_read_from_head_and_again_when_it_has_changed(tmp_path: Path) -> None:
    git, inside = tmp_path / ".git", tmp_path / "src" / "deep"
    git.mkdir()
    inside.mkdir(parents=True)
    check_out(git, "ref: refs/heads/main\n", 1)
    branch = GitBranch(str(inside))
    assert branch.name == "main"
    assert not branch.update()
    check_out(git, "ref: refs/heads/feature/x\n", 2)
    assert branch.update() and branch.name == "feature/x"
    check_out(git, "0123456789abcdef0123456789abcdef01234567\n", 3)
    assert branch.update() and branch.name == "0123456"
    (git / "HEAD").unlink()
    assert branch.update() and branch.name is None


def test_a_work_tree_names_its_folder_in_a_file_and_other_folders_have_no_branch(tmp_path: Path) -> None:
    real = tmp_path / "repository" / "worktrees" / "one"
    real.mkdir(parents=True)
    check_out(real, "ref: refs/heads/one\n", 1)
    work = tmp_path / "work"
    work.mkdir()
    (work / ".git").write_text(f"gitdir: {real}\n")
    assert GitBranch(str(work)).name == "one"
    assert GitBranch("/").name is None


def test_a_head_that_is_a_pipe_a_device_or_huge_is_no_branch(tmp_path: Path) -> None:
    for name in ("pipe", "device", "huge", "file"):
        (tmp_path / name / ".git").mkdir(parents=True)
    os.mkfifo(tmp_path / "pipe" / ".git" / "HEAD")
    (tmp_path / "device" / ".git" / "HEAD").symlink_to("/dev/zero")
    with (tmp_path / "huge" / ".git" / "HEAD").open("wb") as huge:
        huge.truncate(1 << 34)
    (tmp_path / "file" / ".git").rmdir()
    with (tmp_path / "file" / ".git").open("wb") as huge:
        huge.truncate(1 << 34)
    for name in ("pipe", "device", "huge", "file"):
        assert GitBranch(str(tmp_path / name)).name is None
