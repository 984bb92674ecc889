"""Patches and branches are taken outside the sandbox: git there runs nothing that an agent has prepared."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.fleets import FleetRun, repository
from support.library_agent import calls
from tau.fleet.probe import sandbox_problem
from tau.fleet.workspace import WorkFolder
from tau.records.fleet import Order, Patch, Task

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

WHO = ("-c", "user.name=t", "-c", "user.email=t@t", "-c", "protocol.file.allow=always")


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *WHO, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


class Scene:
    """A repository, the work folder of an attempt, and a trap: a program in that folder which git could start."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.kind = folder, kind
        self.sprung = folder / "sprung"
        self.repo = repository(folder / "repo", {"a.txt": "one\n", "trap": "#!/bin/sh\ncat\n", "kept/b.txt": "b\n"})
        (self.repo / "trap").chmod(0o755)
        git(self.repo, "commit", "-qam", "executable")

    def work(self, sandbox: str = "workspace") -> WorkFolder:
        task: Any = {"id": "t", "prompt": "p", "repo": str(self.repo), "workspace": self.kind}
        order = Order("t#1", 1, Task(**task), "", str(self.folder / "out/tasks/t/1"), sandbox=sandbox)
        return WorkFolder(order, self.folder / "local")

    def set_trap(self, tree: Path) -> None:
        (tree / "trap").write_text(f"#!/bin/sh\nenv > {self.sprung}\ncat\n")
        (tree / "trap").chmod(0o755)
        (tree / "a.txt").write_text("two\n")

    def take(self, prepare: Callable[[Path], None], *, sandbox: str = "workspace") -> tuple[str, Path]:
        """The patch of an agent that has done `prepare`, and its work folder with a branch."""

        async def run() -> tuple[str, Path]:
            work, draft = self.work(sandbox), self.folder / "draft"
            draft.mkdir()
            await work.prepare()
            self.set_trap(work.path)
            prepare(work.path)
            self.sprung.unlink(missing_ok=True)  # what is left there now, the agent has started itself
            patch = await work.patch(draft / "patch.diff")
            assert isinstance(patch, Patch)
            await work.commit(draft)
            assert [path.name for path in draft.iterdir()] == ["patch.diff"]
            return (draft / "patch.diff").read_text(errors="replace"), work.path

        return asyncio.run(run())


def nested(tree: Path, name: str = "sub") -> Path:
    """A repository with a commit and a change, whose configuration names the trap in every way."""
    sub = tree / name
    git(tree, "init", "-q", str(sub))
    (sub / "f").write_text("1\n")
    git(sub, "add", "f")
    git(sub, "commit", "-qm", "x")
    trap = shlex.quote(str(tree / "trap"))
    for setting in ("core.fsmonitor", "filter.x.clean", "filter.x.process", "diff.external", "diff.x.textconv"):
        git(sub, "config", setting, trap)
    (sub / ".gitattributes").write_text("* filter=x diff=x\n")
    (sub / "f").write_text("2\n")
    return sub


def nested_in_a_new_folder(tree: Path) -> None:
    (tree / "new" / "er").mkdir(parents=True)
    (tree / "new" / "file").write_text("n\n")
    nested(tree, "new/er/sub")


def nested_by_a_file(tree: Path) -> None:
    sub = nested(tree)
    (sub / ".git").rename(tree / "elsewhere")
    (sub / ".git").write_text(f"gitdir: {tree / 'elsewhere'}\n")


def nested_by_a_link(tree: Path) -> None:
    sub = nested(tree)
    (sub / ".git").rename(tree / "elsewhere")
    (sub / ".git").symlink_to("../elsewhere")


def nested_without_a_commit(tree: Path) -> None:
    git(tree, "init", "-q", "sub")
    git(tree / "sub", "config", "core.fsmonitor", str(tree / "trap"))
    (tree / "sub" / "f").write_text("1\n")


def nested_over_tracked_files(tree: Path) -> None:
    nested(tree, "kept")


def attributes(tree: Path) -> None:
    (tree / ".gitattributes").write_text("* filter=x diff=x merge=x\n")


NESTED = (
    nested,
    nested_in_a_new_folder,
    nested_by_a_file,
    nested_by_a_link,
    nested_without_a_commit,
    nested_over_tracked_files,
)


@pytest.mark.promise("W16")
@pytest.mark.parametrize("prepare", NESTED)
def test_a_repository_that_the_agent_made_starts_nothing(tmp_path: Path, prepare: Callable[[Path], Any]) -> None:
    scene = Scene(tmp_path, "worktree")
    patch, tree = scene.take(prepare)
    assert not scene.sprung.exists()
    assert "+two" in patch
    assert "Subproject" not in patch
    assert "160000" not in git(tree, "ls-tree", "-r", "HEAD")


def test_the_traps_work_for_git_itself(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "clone")

    def prepare(tree: Path) -> None:
        nested(tree)
        git(tree, "add", "--all", "--intent-to-add")
        scene.sprung.unlink(missing_ok=True)
        git(tree, "diff", "--no-ext-diff", "--no-textconv", "HEAD")
        assert scene.sprung.exists()

    scene.take(prepare)


SETTINGS = (
    "core.fsmonitor",
    "filter.x.clean",
    "filter.x.process",
    "diff.external",
    "diff.x.textconv",
    "diff.x.command",
    "core.pager",
    "core.editor",
    "gpg.program",
)


@pytest.mark.promise("W16")
@pytest.mark.parametrize("kind", ["worktree", "copy"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_program_of_the_work_folder_that_the_configuration_names_is_not_started(
    tmp_path: Path, setting: str, kind: str
) -> None:
    scene = Scene(tmp_path, kind)
    git(scene.repo, "config", setting, "./trap")
    git(scene.repo, "config", "commit.gpgSign", "true")
    patch, _ = scene.take(attributes)
    assert not scene.sprung.exists()
    assert "+two" in patch


@pytest.mark.promise("W16")
def test_hooks_in_the_work_folder_are_not_started(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "worktree")
    git(scene.repo, "config", "core.hooksPath", ".hooks")
    names = ("pre-commit", "post-commit", "post-index-change", "reference-transaction", "prepare-commit-msg")

    def prepare(tree: Path) -> None:
        (tree / ".hooks").mkdir()
        for name in names:
            shutil.copy(tree / "trap", tree / ".hooks" / name)

    scene.take(prepare)
    assert not scene.sprung.exists()


@pytest.mark.promise("W16")
def test_configuration_that_is_included_from_the_work_folder_is_not_obeyed(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "copy")
    git(scene.repo, "config", "include.path", "../.gitconfig")

    def prepare(tree: Path) -> None:
        attributes(tree)
        for setting in SETTINGS:
            git(tree, "config", "--file", ".gitconfig", setting, "./trap")
        git(tree, "config", "--file", ".gitconfig", "core.hooksPath", ".")
        shutil.copy(tree / "trap", tree / "post-index-change")

    patch, _ = scene.take(prepare)
    assert not scene.sprung.exists()
    assert "+two" in patch


@pytest.mark.promise("W16")
@pytest.mark.parametrize("submodule", ["short", "log", "diff"])
def test_a_submodule_stays_as_it_was_and_starts_nothing(tmp_path: Path, submodule: str) -> None:
    scene = Scene(tmp_path, "copy")
    other = repository(tmp_path / "other")
    git(scene.repo, "submodule", "--quiet", "add", str(other), "sub")
    git(scene.repo, "commit", "-qm", "submodule")
    git(scene.repo, "config", "diff.submodule", submodule)
    entry = git(scene.repo, "ls-tree", "HEAD", "sub")

    def prepare(tree: Path) -> None:
        git(tree / "sub", "config", "core.fsmonitor", str(tree / "trap"))
        (tree / "sub" / "a.txt").write_text("changed\n")
        git(tree / "sub", *WHO, "commit", "-qam", "more")
        (tree / "sub" / "a.txt").write_text("changed again\n")

    patch, tree = scene.take(prepare)
    assert not scene.sprung.exists()
    assert "b/sub" not in patch
    assert git(tree, "ls-tree", "HEAD", "sub") == entry


def test_a_patch_has_every_change_and_leaves_the_index_alone(tmp_path: Path) -> None:
    """Also changes of the kind of a file, and names that are not UTF-8."""
    scene = Scene(tmp_path, "worktree")
    (scene.repo / "gone.txt").write_text("gone\n")
    (scene.repo / "file").write_text("file\n")
    (scene.repo / ".git/info/exclude").write_text("ignored\n")
    git(scene.repo, "add", ".")
    git(scene.repo, "commit", "-qm", "more")

    async def run() -> None:
        work = scene.work()
        await work.prepare()
        index = Path(git(work.path, "rev-parse", "--git-path", "index").strip())
        tree, before = work.path, index.read_bytes()
        (tree / "gone.txt").unlink()
        (tree / "file").unlink()
        (tree / "file").mkdir()
        (tree / "file" / "inner").write_bytes(b"\0\1binary")
        shutil.rmtree(tree / "kept")
        (tree / "kept").symlink_to("/etc")
        (tree / "ignored").write_text("x")
        Path(os.fsdecode(os.fsencode(tree) + b"/\xff:(exclude)*")).write_text("odd\n")
        (tree / "empty").touch()
        patch = await work.patch(tmp_path / "patch.diff")
        assert patch is not None
        assert (patch.files, index.read_bytes()) == (7, before)
        git(scene.repo, "apply", "--index", str(tmp_path / "patch.diff"))
        shutil.rmtree(tree / ".git", ignore_errors=True)
        done = subprocess.run(
            ["diff", "-r", "--no-dereference", "--exclude=.git", "--exclude=ignored", scene.repo, tree],
            capture_output=True,
            text=True,
        )
        assert done.stdout == ""
        await work.remove()

    asyncio.run(run())
    assert git(scene.repo, "worktree", "list").count("\n") == 1


@pytest.mark.parametrize("kind", ["worktree", "copy"])
def test_what_a_filter_has_changed_is_not_in_the_patch_if_the_agent_left_it_alone(tmp_path: Path, kind: str) -> None:
    scene = Scene(tmp_path, kind)
    (scene.repo / ".gitattributes").write_text("*.low filter=low\n")
    git(scene.repo, "config", "filter.low.clean", "tr A-Z a-z")
    git(scene.repo, "config", "filter.low.smudge", "tr a-z A-Z")
    (scene.repo / "x.low").write_text("TEXT\n")
    os.utime(scene.repo / "x.low", (1e9, 1e9))
    git(scene.repo, "add", ".")
    git(scene.repo, "commit", "-qm", "filtered")
    patch, tree = scene.take(lambda tree: None)
    assert "x.low" not in patch
    assert (tree / "x.low").read_text() == "TEXT\n"


def test_the_repository_around_a_fleet_is_not_taken_for_that_of_a_work_folder(tmp_path: Path) -> None:
    """A sandbox that was killed leaves an empty `.git` in a folder without a repository."""
    scene = Scene(tmp_path, "copy")
    plain = scene.repo / "fleet" / "work"
    (plain / ".git").mkdir(mode=0o500, parents=True)

    async def run() -> tuple[str | None, Patch | None]:
        work = scene.work()
        await work.take_up(plain)
        return work.base, await work.patch(tmp_path / "patch.diff")

    assert asyncio.run(run()) == (None, None)


def test_a_patch_of_a_folder_with_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = repository(tmp_path / "repo")
    monkeypatch.chdir(tmp_path)
    (repo / "a.txt").write_text("two\n")
    task = Task(id="t", prompt="p", repo="repo", workspace="in-place")
    work = WorkFolder(Order("t#1", 1, task, "", "out/tasks/t/1", sandbox="workspace"), Path("local"))

    async def run() -> Patch | None:
        await work.prepare()
        return await work.patch(Path("patch.diff"))

    assert asyncio.run(run()) is not None
    assert "+two" in (tmp_path / "patch.diff").read_text()
    assert git(repo, "status", "--porcelain") == " M a.txt\n"


def test_the_settings_of_the_user_that_compare_files_hold(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "worktree")
    ignore = tmp_path / 'a "strange" name'
    ignore.write_text("*.tmp\n")
    git(scene.repo, "config", "core.excludesFile", str(ignore))
    git(scene.repo, "config", "core.autocrlf", "input")

    def prepare(tree: Path) -> None:
        (tree / "x.tmp").write_text("x\n")
        (tree / "a.txt").write_bytes(b"one\r\ntwo\r\n")

    patch, _ = scene.take(prepare)
    assert "x.tmp" not in patch
    assert "+two\n" in patch
    assert "-one" not in patch


def test_without_a_sandbox_filters_run_and_see_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "the-key")
    scene = Scene(tmp_path, "worktree")
    git(scene.repo, "config", "filter.x.clean", "./trap")
    patch, _ = scene.take(attributes, sandbox="none")
    assert "+two" in patch
    assert scene.sprung.exists()
    assert "the-key" not in scene.sprung.read_text()


@pytest.mark.promise("W16")
@pytest.mark.parametrize("output", ["patch", "branch"])
def test_a_task_in_the_sandbox_starts_nothing_outside_by_a_repository_in_its_folder(
    tmp_path: Path, output: str
) -> None:
    if (problem := asyncio.run(sandbox_problem("workspace"))) is not None:
        pytest.skip(f"no sandbox here: {problem}")
    repo, sprung = repository(tmp_path / "repo"), tmp_path / "sprung"
    command = (
        "git init -q sub && cd sub && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && "
        f"printf '#!/bin/sh\\nenv > {sprung}\\n' > ../trap && chmod +x ../trap && "
        'git config core.fsmonitor "$PWD/../trap" && echo y > f'
    )
    fleet = FleetRun(tmp_path, [calls("bash", command=command), {"text": "ok"}])
    fleet.variables["ANTHROPIC_API_KEY"] = "the-key"
    fleet.tasks([{"id": "a", "repo": str(repo), "output": output, "check": "test -f sub/f"}])
    assert fleet.run("--sandbox", "workspace").returncode == 0
    assert not sprung.exists()
    result = fleet.results()["a"]
    assert (result["outcome"], result["patch"]["files"]) == ("solved", 1)
    assert "sub is a repository of its own" in (fleet.out / "tasks/a/1/worker.log").read_text()
