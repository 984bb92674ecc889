"""Work trees of one repository that many workers use, some of which do not see each other's folders."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from long.fleet_kills import rows
from support.fleets import FleetRun, can_mount, repository, wait_for
from support.library_agent import calls
from tau.fleet.git import GitError, git

WORKER = f"{sys.executable} -m tau fleet worker --slots 4"
REAL_GIT = shutil.which("git")
WRITE = calls("write", path="new.txt", content="hello\n")


def trees(repo: Path) -> list[str]:
    words = ["git", "worktree", "list", "--porcelain"]
    listed = subprocess.run(words, cwd=repo, capture_output=True, text=True, check=True).stdout
    return [line.removeprefix("worktree ") for line in listed.splitlines() if line.startswith("worktree ")]


def worker_elsewhere(folder: Path, command: str = WORKER) -> str:
    """A worker that sees another folder at the same path, as one on another machine does."""
    folder.mkdir(exist_ok=True)
    inside = f"mount -t tmpfs none {folder}; exec {command} --root {folder}/w"
    return f"unshare --user --map-root-user --mount sh -c {shlex.quote(inside)}"


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.promise("W17")
@pytest.mark.skipif(not can_mount(), reason="*** no disk can be mounted here (unshare --user --mount) ***")
def test_workers_that_do_not_see_each_other_leave_each_others_work_trees_alone(tmp_path: Path) -> None:
    """One worker waits with its work trees while the other one makes and removes its own, and prunes all others."""
    repo, go = repository(tmp_path / "repo"), tmp_path / "go"
    fleet = FleetRun(tmp_path, [WRITE, {"text": "ok"}])
    slow = f"touch {tmp_path}/waits-$$; until test -e {go}; do sleep 0.05; done"
    task = {"repo": str(repo), "check": "git diff --quiet HEAD", "retries": 0}
    fleet.tasks(
        [
            *({**task, "id": f"slow{number}", "needs": {"slow": True}, "setup": slow} for number in range(4)),
            *({**task, "id": f"fast{number}", "needs": {"fast": True}} for number in range(8)),
        ]
    )
    flags = (
        *("--concurrency", "8", "--worker", worker_elsewhere(tmp_path / "one", f"{WORKER} --label slow=true")),
        *("--worker", worker_elsewhere(tmp_path / "two", f"{WORKER} --label fast=true")),
    )
    done = "select 1 from result where task like 'fast%'"
    with fleet.running(*flags) as process:
        wait_for(lambda: len(rows(fleet, done)) == 8 and len(list(tmp_path.glob("waits-*"))) == 4)
        subprocess.run(["git", "worktree", "prune"], cwd=repo, check=True)
        go.touch()
        assert process.wait(60) == 0
    assert {result["patch"]["files"] for result in fleet.results().values()} == {1}
    assert trees(repo) == [str(repo)]


@pytest.mark.promise("W17")
def test_fleets_with_the_same_tasks_and_the_same_folder_for_workers_do_not_meet(tmp_path: Path) -> None:
    repo, go = repository(tmp_path / "repo"), tmp_path / "go"
    fleets = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        wait = f"touch {tmp_path}/{name}-$$; until test -e {go}; do sleep 0.05; done"
        fleet = FleetRun(tmp_path / name, [WRITE, {"text": name}])
        fleet.tasks(
            {"id": f"t{number}", "repo": str(repo), "setup": wait, "retries": 0, "workspace": kind}
            for number, kind in enumerate(("worktree", "worktree", "clone", "copy"))
        )
        fleets.append(fleet)
    flags = ("--worker", f"{WORKER} --root {tmp_path}/root")
    with fleets[0].running(*flags) as first, fleets[1].running(*flags) as second:
        wait_for(lambda: len(list(tmp_path.glob("*-*"))) == 8, "the fleets do not work beside each other")
        go.touch()
        assert [process.wait(60) for process in (first, second)] == [0, 0]
    for fleet in fleets:
        found = {(result["text"], result["patch"]["files"]) for result in fleet.results().values()}
        assert found == {(fleet.folder.name, 1)}
    assert trees(repo) == [str(repo)]


@pytest.mark.promise("W17")
@pytest.mark.skipif(not can_mount(), reason="*** no disk can be mounted here (unshare --user --mount) ***")
def test_what_killed_workers_leave_in_a_repository_is_removed_and_nothing_else(tmp_path: Path) -> None:
    repo, go = repository(tmp_path / "repo"), tmp_path / "go"
    foreign = tmp_path / "foreign"
    subprocess.run(["git", "worktree", "add", "--quiet", "--lock", "--detach", str(foreign)], cwd=repo, check=True)
    foreign.rename(tmp_path / "out of sight")
    wait = f"touch {tmp_path}/waits-$$; until test -e {go}; do sleep 0.05; done"
    fleet = FleetRun(tmp_path, [WRITE, {"text": "ok"}])
    fleet.tasks({"id": f"t{number}", "repo": str(repo), "setup": wait} for number in range(2))
    pid = tmp_path / "pid"
    command = f"sh -c {shlex.quote(f'test -e {pid} || echo $$ > {pid}; exec {WORKER} $@')} sh"
    with fleet.running("--worker", worker_elsewhere(tmp_path / "one", command)) as process:
        wait_for(lambda: len(list(tmp_path.glob("waits-*"))) == 2)
        os.kill(int(pid.read_text()), 9)
        go.touch()
        assert process.wait(60) == 0
    assert {result["attempt"] for result in fleet.results().values()} == {2}
    assert trees(repo) == [str(repo), str(foreign)]


FAILING = """
if ! test -e {mark}3 && case "$*" in {case}) true;; *) false;; esac; then
  if test -e {mark}2; then touch {mark}3; elif test -e {mark}1; then touch {mark}2; else touch {mark}1; fi
  echo "{error}" >&2
  exit 128
fi
exec {git} "$@"
"""


@pytest.mark.parametrize(
    ("case", "error"),
    [
        ("*reset*", "fatal: Unable to create '/r/.git/worktrees/t-1/index.lock': File exists."),
        (
            "*worktree\\ add*",
            "fatal: could not open '.git/worktrees/t/locked' for writing: No such file or directory",
        ),
        ("*worktree\\ add*", "fatal: failed to read .git/worktrees/t-1/commondir: Success"),
        ("*branch*", "fatal: cannot lock ref 'refs/heads/tau/t-1': Unable to create '/r/t-1.lock': File exists."),
    ],
)
def test_git_tries_again_when_another_process_is_in_its_way(tmp_path: Path, case: str, error: str) -> None:
    fleet = FleetRun(tmp_path, [WRITE, {"text": "ok"}])
    text = FAILING.format(mark=tmp_path / "failed", case=case, error=error, git=REAL_GIT)
    fleet.variables["PATH"] = f"{program(tmp_path / 'bin' / 'git', text).parent}:{os.environ['PATH']}"
    fleet.tasks([{"id": "t", "repo": str(repository(tmp_path / "repo")), "output": "branch", "retries": 0}])
    assert fleet.run("--workers", "1").returncode == 0
    result = fleet.results()["t"]
    assert (result["outcome"], result["attempt"], (tmp_path / "failed3").exists()) == ("done", 1, True)


def test_other_failures_of_git_are_not_tried_again(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    there = program(tmp_path / "bin" / "git", f"echo x >> {mark}; echo 'fatal: bad revision' >&2; exit 128").parent
    with pytest.raises(GitError, match="git status: fatal: bad revision"):
        asyncio.run(git("/", "status", env={"PATH": f"{there}:{os.environ['PATH']}"}))
    assert mark.read_text() == "x\n"


def test_a_failure_of_git_is_no_result_of_the_task(tmp_path: Path) -> None:
    fleet = FleetRun(tmp_path, [WRITE, {"text": "ok"}])
    mark = tmp_path / "failed"
    text = f"""
case "$*" in *diff\\ --binary*) test -e {mark} || {{ touch {mark}; echo "fatal: it broke" >&2; exit 128; }};; esac
exec {REAL_GIT} "$@"
"""
    fleet.variables["PATH"] = f"{program(tmp_path / 'bin' / 'git', text).parent}:{os.environ['PATH']}"
    fleet.tasks([{"id": "t", "repo": str(repository(tmp_path / "repo"))}])
    assert fleet.run("--workers", "1").returncode == 0
    assert (fleet.results()["t"]["outcome"], fleet.results()["t"]["attempt"]) == ("done", 2)
    assert rows(fleet, "select how from attempt where number = 1") == [("a failure that may pass",)]
