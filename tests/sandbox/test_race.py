"""Names are planned in one process and mounted in another: what replaces them in between is not mounted."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox.launching import launched, launched_with, sandbox
from support.sandbox_escapes import LEVELS, missing, started, without
from tau.runtime.sandbox.launcher import BWRAP, bubblewrap_arguments, python_words
from tau.runtime.sandbox.mounts import Mount
from tau.runtime.sandbox.safe_open import identify, links_to, open_beneath, walk_beneath

OPENAT2 = 437


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> str:
    if why := missing(request.param):
        pytest.skip(why)
    return str(request.param)


def nested(folder: Path) -> None:
    """A working folder with a submodule that lies deep in it, and a home folder with something of the same name."""
    inner = folder / "work" / "a" / "code" / "proj" / ".git"
    inner.mkdir(parents=True)
    (folder / "work" / ".git").mkdir()
    (folder / "work" / ".gitmodules").write_text('[submodule "x"]\n\tpath = a/code/proj\n')
    (folder / "home" / "code" / "proj" / ".git").mkdir(parents=True)
    (folder / "home" / "grant").mkdir()


def by_link(path: Path, to: Path) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to(to)


def by_folder(path: Path, to: Path) -> None:
    path.rename(path.with_name("moved"))
    path.mkdir()
    subprocess.run(["cp", "-r", f"{path.with_name('moved')}/.", path], check=True)


PLACES = {
    "a folder on the way to what is protected": "work/a",
    "what is protected": "work/a/code/proj/.git",
    "the working folder": "work",
    "a folder that was granted": "home/grant",
}


@pytest.mark.promise("X01", "X02", "X10")
@pytest.mark.parametrize("by", [by_link, by_folder])
@pytest.mark.parametrize("what", PLACES)
def test_a_folder_that_was_replaced_after_planning_is_not_mounted(
    tmp_path: Path, level: str, what: str, by: Callable[[Path, Path], None]
) -> None:
    nested(tmp_path)
    words = sandbox(tmp_path, level, writable=[str(tmp_path / "home" / "grant")]).words()
    by(tmp_path / PLACES[what], tmp_path / "home")
    said = launched(words)
    assert said.startswith("refused "), said
    assert PLACES[what] in said and ("was replaced" in said or "Too many levels of symbolic links" in said)


def test_a_folder_that_was_replaced_before_its_placeholder_was_made_gets_none(tmp_path: Path, level: str) -> None:
    nested(tmp_path)
    (tmp_path / "work" / "a" / "code" / "proj" / ".git").rmdir()
    (tmp_path / "home" / "code" / "proj" / ".git").rmdir()
    words = sandbox(tmp_path, level).words()
    by_link(tmp_path / "work" / "a", tmp_path / "home")
    assert launched(words).startswith("refused ")
    assert not (tmp_path / "home" / "code" / "proj" / ".git").exists()


@pytest.mark.promise("X02")
def test_a_source_that_is_not_what_was_planned_is_refused(tmp_path: Path, level: str) -> None:
    nested(tmp_path)
    plan = sandbox(tmp_path, level).plan()
    target = str(tmp_path / "work" / "a")
    changed = [
        mount._replace(source=str(tmp_path / "home")) if mount.target == target else mount for mount in plan.mounts
    ]
    assert [mount.target for mount in plan.mounts].count(target) == 1
    said = launched_with(plan._replace(mounts=changed))
    assert said.startswith("refused ") and "was replaced while the sandbox was being set up" in said


def test_a_plan_that_nothing_has_disturbed_is_carried_out(tmp_path: Path, level: str) -> None:
    nested(tmp_path)
    assert launched(sandbox(tmp_path, level, writable=[str(tmp_path / "home" / "grant")]).words()) == "ready"


def test_a_working_folder_that_is_another_one_later_gets_no_second_sandbox(tmp_path: Path, level: str) -> None:
    made = sandbox(tmp_path, level)
    assert launched(made.words()) == "ready"
    (tmp_path / "work").rename(tmp_path / "moved")
    (tmp_path / "work").mkdir()
    with pytest.raises(Exception, match="is not the same folder as when this session began"):
        made.words()


@pytest.mark.promise("X02")
def test_what_another_program_has_mounted_from_a_replaced_name_is_found_inside(tmp_path: Path) -> None:
    """bubblewrap opens names itself: here it is started by hand, after the launcher has checked them."""
    if why := missing("strict"):
        pytest.skip(why)
    nested(tmp_path)
    made = sandbox(tmp_path, "strict")
    plan = made.plan()
    held = {path: Path(path) for path in plan.placeholders}
    for path in held.values():
        path.mkdir(0o500)
    mounts = [mount._replace(identity=identify(mount.source)) for mount in plan.mounts]
    inside = python_words("check_inside", plan._replace(mounts=mounts, words=["/bin/echo", "passed"]).arguments())
    target = str(tmp_path / "work" / "a")

    def run(mounts: list[Mount]) -> subprocess.CompletedProcess[str]:
        words = [BWRAP, *bubblewrap_arguments(plan._replace(mounts=mounts)), "--", *inside]
        return subprocess.run(words, capture_output=True, text=True)

    try:
        assert run(mounts).stdout == "passed\n"
        elsewhere = [
            mount._replace(source=str(tmp_path / "home")) if mount.target == target else mount for mount in mounts
        ]
        missing_one = [mount for mount in mounts if mount.target != f"{target}/code/proj/.git"]
        writable = [mount._replace(writable=True) for mount in mounts]
        said = [run(changed) for changed in (elsewhere, missing_one, writable)]
    finally:
        made.clear()
    assert [done.stdout for done in said] == ["", "", ""]
    assert f"{target} was replaced" in said[0].stderr
    assert f"{target}/code/proj/.git was replaced" in said[1].stderr
    assert "can be written" in said[2].stderr


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM])
def test_a_kernel_without_openat2_is_enough(tmp_path: Path, level: str, number: int) -> None:
    done = started(tmp_path, level, *without((OPENAT2, number)))
    assert (done.returncode, (tmp_path / "work" / "ran").exists()) == (0, True), done.stderr


@pytest.mark.parametrize("opening", [open_beneath, walk_beneath])
def test_no_component_of_a_path_may_be_a_link_or_lead_out(tmp_path: Path, opening: Callable[[int, str], int]) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "a" / "last").symlink_to("b")
    top = os.open(tmp_path, os.O_PATH)
    try:
        found = opening(top, "a/b")
        assert os.path.samestat(os.fstat(found), os.stat(tmp_path / "a" / "b"))
        os.close(found)
        expected = {"link/b": errno.ELOOP, "a/last": errno.ELOOP, "../x": errno.EXDEV, "a/no": errno.ENOENT}
        for path, number in expected.items():
            with pytest.raises(OSError) as raised:
                opening(top, path)
            assert raised.value.errno == number, path
    finally:
        os.close(top)


def test_links_on_the_way_are_found_where_they_really_are(tmp_path: Path) -> None:
    real = Path(os.path.realpath(tmp_path))
    (real / "a").mkdir()
    (real / "one").symlink_to("a")
    (real / "a" / "two").symlink_to(real / "one")
    (real / "loop").symlink_to("loop")
    assert links_to(f"{real}/one/two/x/../y") == [f"{real}/one", f"{real}/a/two", f"{real}/one"]
    assert links_to(f"{real}/a/../a") == []
    assert len(links_to(f"{real}/loop")) == 40
