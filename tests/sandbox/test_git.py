"""git, started by the user outside, runs nothing that a command in the sandbox has prepared."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandbox.test_git_index import SPELLINGS, git
from sandbox.test_life import within
from support.rpc_process import WITHIN, Agent
from support.sandbox_escapes import LEVELS, missing


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> str:
    if why := missing(request.param):
        pytest.skip(why)
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    return str(request.param)


class Project:
    """A working folder, and a trap: a program that git would start if a command got its configuration obeyed."""

    def __init__(self, folder: Path, level: str) -> None:
        self.folder, self.level, self.tree = folder, level, folder / "work"
        self.tree.mkdir()
        self.trap = folder / "trap"
        self.sprung = folder / "sprung"
        self.trap.write_text(f"#!/bin/sh\ntouch {self.sprung}\n")
        self.trap.chmod(0o755)

    def agent(self, **how: object) -> Agent:
        return Agent(self.folder, args=["--sandbox", self.level], **how)  # type: ignore[arg-type]

    def names(self) -> list[str]:
        """All that is in the working folder, also while something of it is removed."""
        return sorted(os.path.join(at, name) for at, dirs, files in os.walk(self.tree) for name in (*dirs, *files))

    def refusal(self) -> str:
        with self.agent() as agent:
            assert agent.exit_code() == 2
            return agent.stderr

    def bait(self, gitdir: str) -> str:
        """A command that makes a repository whose configuration names the trap; in a bare one a work tree as well."""
        config = f"[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tfsmonitor = {self.trap}\\n"
        config += "\\tworktree = .\\n" if gitdir == "." else ""
        where = shlex.quote(gitdir)
        return (
            f"mkdir -p {where}/objects {where}/refs/heads; echo 'ref: refs/heads/main' > {where}/HEAD; "
            f"printf '{config}' > {where}/config; "
        )

    def status(self, folder: Path) -> bool:
        """The user asks for the status; whether the trap was sprung."""
        env = {**os.environ, "HOME": str(self.folder / "home"), "GIT_CONFIG_COUNT": "1"}
        env |= {"GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
        subprocess.run(["git", "status"], cwd=folder, env=env, capture_output=True)
        return self.sprung.exists()


@pytest.fixture
def project(tmp_path: Path, level: str) -> Iterator[Project]:
    yield Project(tmp_path, level)


def linked(project: Project, path: str = "vendored") -> None:
    """A repository with a submodule that was never initialised, as `git clone` without --recursive leaves it."""
    git(project.tree, "init", "-q")
    git(project.tree, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},{path}")


@pytest.mark.parametrize("gitdir", ["vendored/.git", "."])
def test_the_trap_works_where_nothing_is_protected(project: Project, gitdir: str) -> None:
    if gitdir != ".":
        linked(project)
        (project.tree / "vendored").mkdir()
    subprocess.run(project.bait(gitdir), shell=True, cwd=project.tree, check=True)
    assert project.status(project.tree)


@pytest.mark.promise("X10")
@pytest.mark.parametrize("path", ["vendored", "deep/er/vendored"])
@pytest.mark.parametrize("there", [True, False])
def test_git_of_a_submodule_that_was_never_initialised_cannot_be_made(project: Project, path: str, there: bool) -> None:
    linked(project, path)
    if there:
        (project.tree / path).mkdir(parents=True)
    before = project.names()
    with project.agent() as agent:
        first = path.split("/")[0]
        moved = f"mv {first} moved; mkdir -p {path}; "
        agent.get("bash", command=project.bait(f"{path}/.git") + moved + project.bait(f"{path}/.git"))
        assert not project.status(project.tree)
    assert not project.status(project.tree)
    assert within(WITHIN, lambda: project.names() == before)


@pytest.mark.promise("X10")
def test_a_submodule_that_only_the_index_names_is_protected(project: Project) -> None:
    linked(project)
    inner = project.tree / "vendored"
    inner.mkdir()
    git(inner, "init", "-q")
    with project.agent() as agent:
        agent.get("bash", command=project.bait("vendored/.git"))
        agent.get("bash", command="mv vendored/.git x; mv vendored y")
    assert not project.status(project.tree)
    assert "fsmonitor" not in (inner / ".git" / "config").read_text()


@pytest.mark.promise("X10")
@pytest.mark.parametrize("spelling", ["a comment behind it", "another case", "quotes inside", "a line that goes on"])
def test_a_submodule_is_protected_however_gitmodules_spells_it(project: Project, spelling: str) -> None:
    git(project.tree, "init", "-q")
    (project.tree / ".gitmodules").write_text(SPELLINGS[spelling])
    inner = project.tree / "one"
    inner.mkdir()
    git(inner, "init", "-q")
    with project.agent() as agent:
        agent.get("bash", command=project.bait("one/.git"))
    assert "fsmonitor" not in (inner / ".git" / "config").read_text()


@pytest.mark.promise("X10")
def test_submodules_of_submodules_are_protected_too(project: Project) -> None:
    sources = [project.folder / name for name in ("inner", "middle")]
    for source in sources:
        source.mkdir()
        git(source, "init", "-q")
        git(source, "commit", "-q", "--allow-empty", "-m", "x")
    git(sources[1], "submodule", "add", "-q", str(sources[0]), "inner")
    git(sources[1], "commit", "-q", "-m", "x")
    git(project.tree, "init", "-q")
    git(project.tree, "submodule", "add", "-q", str(sources[1]), "middle")
    assert (project.tree / "middle" / "inner").is_dir() and not (project.tree / "middle" / "inner" / ".git").exists()
    with project.agent() as agent:
        agent.get("bash", command=project.bait("middle/inner/.git"))
        assert not project.status(project.tree)
    assert not project.status(project.tree)
    assert within(WITHIN, lambda: os.listdir(project.tree / "middle" / "inner") == [])


def test_submodules_of_a_repository_around_the_working_folder_are_protected(project: Project) -> None:
    git(project.folder, "init", "-q")
    git(project.folder, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},work/vendored")
    (project.tree / "vendored").mkdir()
    with project.agent() as agent:
        agent.get("bash", command=project.bait("vendored/.git"))
        assert not project.status(project.folder)
    assert not project.status(project.folder)


def test_a_link_in_the_place_of_a_submodule_is_refused(project: Project) -> None:
    linked(project)
    (project.tree / "vendored").symlink_to("elsewhere")
    assert "vendored is a link, which cannot be protected from being replaced" in project.refusal()


def test_what_only_gitmodules_names_does_not_keep_a_sandbox_from_being_made(project: Project) -> None:
    """A command can write that file, and make the links that it leads over."""
    git(project.tree, "init", "-q")
    (project.tree / "real").mkdir()
    (project.tree / "real" / ".git").symlink_to("nowhere")
    (project.tree / "link").symlink_to("real")
    paths = ("real", "link", "missing", "link/../..", "../..", "/etc", ".", "real/.git/x")
    text = "".join(f'[submodule "{path}"]\n\tpath = {path}\n' for path in paths)
    (project.tree / ".gitmodules").write_text(text)
    with project.agent() as agent:
        assert agent.get("bash", command="mkdir missing && echo x > link/works && cat real/works")["output"] == "x\n"


def test_an_index_that_cannot_be_read_is_refused(project: Project) -> None:
    linked(project)
    (project.tree / ".git" / "index").write_bytes(b"DIRC nothing")
    assert f"the git index in {project.tree}/.git cannot be read" in project.refusal()


@pytest.mark.promise("X10")
def test_a_folder_cannot_be_made_a_bare_repository(project: Project) -> None:
    with project.agent() as agent:
        agent.get("bash", command=project.bait("."))
        agent.get("bash", command="mv HEAD x; rm -rf HEAD; " + project.bait("."))
        assert not project.status(project.tree)
    assert not project.status(project.tree)
    assert within(WITHIN, lambda: not (project.tree / "HEAD").exists())


@pytest.mark.promise("X10")
def test_a_folder_in_a_repository_cannot_be_made_a_bare_one(project: Project) -> None:
    git(project.folder, "init", "-q")
    with project.agent() as agent:
        agent.get("bash", command=project.bait("."))
        assert not project.status(project.tree)
    assert not project.status(project.tree)


@pytest.mark.promise("X10")
@pytest.mark.parametrize("name", [".", ".git"])
def test_a_folder_that_is_granted_cannot_be_made_a_repository(project: Project, name: str) -> None:
    granted = project.folder / "home" / "cache"
    granted.mkdir(parents=True)
    with project.agent(settings={"sandbox": {"writable": [str(granted)]}}) as agent:
        agent.get("bash", command=f"cd {granted}; echo x > works; " + project.bait(name))
        assert not project.status(granted)
    assert not project.status(granted)
    assert (granted / "works").read_text() == "x\n"


def as_folder(head: Path) -> None:
    head.mkdir()
    (head / "notes").write_text("x")


@pytest.mark.parametrize("made", [as_folder, lambda head: head.write_text("of the department\n")])
def test_a_file_or_folder_of_the_user_named_head_stays_and_is_no_head(
    project: Project, made: Callable[[Path], object]
) -> None:
    made(project.tree / "HEAD")
    with project.agent() as agent:
        agent.get("bash", command="mv HEAD x; rm -f HEAD; " + project.bait("."))
        agent.get("bash", command="test -d HEAD && echo y > HEAD/notes")
    assert not project.status(project.tree)
    if (project.tree / "HEAD").is_dir():
        assert (project.tree / "HEAD" / "notes").read_text() == "y\n"


def test_a_head_that_git_would_accept_is_refused(project: Project) -> None:
    (project.tree / "HEAD").write_text("ref: refs/heads/main\n")
    said = project.refusal()
    assert "git takes" in said and "Rename that file" in said


@pytest.mark.parametrize("where", [".", "hooks"])
def test_a_repository_itself_is_no_working_folder(tmp_path: Path, level: str, where: str) -> None:
    git(tmp_path, "init", "-q", "--bare", "bare")
    (tmp_path / "work").symlink_to(tmp_path / "bare" / where)
    with Agent(tmp_path, args=["--sandbox", level]) as agent:
        assert agent.exit_code() == 2
        assert "is a git repository without a work tree" in agent.stderr


@pytest.mark.promise("X02")
def test_a_git_file_of_an_archive_does_not_open_what_is_around_the_archive(project: Project) -> None:
    """The archive lies beside the user's other projects."""
    code = project.folder / "home" / "code"
    project.tree.rmdir()
    archive = code / "proj"
    (archive / "sub").mkdir(parents=True)
    (archive / "sub" / ".git").write_text("gitdir: ../x\n")
    (archive / "x").mkdir()
    (archive / "x" / "gitdir").write_text(".git\n")
    (code / "other").mkdir()
    (code / "other" / ".env").write_text("KEY=1")
    project.tree.symlink_to(archive / "sub")
    with project.agent() as agent:
        said = agent.get("bash", command=f"cat {code}/other/.env; echo; ls -A {code}")["output"]
    # stdout and stderr are two pipes: the complaint of cat may come last.
    found = [line for line in said.splitlines() if line and not line.startswith("cat: ")]
    assert "KEY=1" not in said and found == ["proj"]


def test_the_repository_of_a_work_tree_can_be_read_and_nothing_beside_it(project: Project) -> None:
    main = project.folder / "home" / "main"
    main.mkdir(parents=True)
    git(main, "init", "-q")
    (main / "a").write_text("beside")
    git(main, "add", "a")
    git(main, "commit", "-qm", "the first one")
    project.tree.rmdir()
    git(main, "worktree", "add", "-q", str(project.tree))
    with project.agent() as agent:
        command = f"git -c safe.directory='*' log --oneline; cat {main}/a; echo x >> {main}/.git/config"
        said = agent.get("bash", command=command)["output"]
    assert "the first one" in said and "beside" not in said and "Read-only" in said


def test_status_is_quiet_about_what_holds_the_places(project: Project) -> None:
    """The user looks at the repository while a sandbox is on."""
    linked(project)
    (project.tree / "vendored").mkdir()
    before = git(project.tree, "status", "--porcelain")
    with project.agent() as agent:
        agent.get("bash", command="true")
        assert git(project.tree, "status", "--porcelain") == before
