"""X12: where a level cannot be enforced nothing is started, and the reason is told.

What a machine lacks is taken away for real, by a filter of system calls around the
whole program, or by a mount that hides bubblewrap: nothing in tau knows of it.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.rpc_process import surroundings
from support.sandbox_escapes import (
    CLONE3,
    LANDLOCK,
    LEVELS,
    UNSHARE,
    WITHOUT_NAMESPACES,
    missing,
    refused_without,
    started,
    without,
)
from tau.runtime.sandbox.policy import not_for_all


def refused(done: subprocess.CompletedProcess[str], folder: Path) -> str:
    assert (done.returncode, done.stdout, (folder / "work" / "ran").exists()) == (2, "", False), done.stderr
    assert "Traceback" not in done.stderr
    assert list((folder / "work").iterdir()) == []
    return done.stderr


@pytest.fixture(autouse=True)
def capable() -> None:
    for level in LEVELS:
        if why := missing(level):
            pytest.skip(why)


@pytest.mark.parametrize("level", LEVELS)
def test_the_same_question_is_answered_where_nothing_is_lacking(tmp_path: Path, level: str) -> None:
    done = started(tmp_path, level, *without())
    assert (done.returncode, (tmp_path / "work" / "ran").exists()) == (0, True), done.stderr


@pytest.mark.promise("X12")
def test_a_kernel_without_landlock_is_refused(tmp_path: Path) -> None:
    said = refused(started(tmp_path, "workspace", *without((LANDLOCK, errno.ENOSYS))), tmp_path)
    assert said == (
        "Error: --sandbox workspace cannot be enforced, so nothing is started: "
        "this kernel has no Landlock (Linux 5.13 or newer), or it is disabled.\n"
    )


@pytest.mark.promise("X12")
def test_landlock_that_is_not_let_do_its_work_is_refused(tmp_path: Path) -> None:
    said = refused(started(tmp_path, "workspace", *without((446, errno.EPERM))), tmp_path)
    assert "Landlock does not work" in said


@pytest.mark.promise("X12")
def test_a_machine_without_user_namespaces_is_refused(tmp_path: Path) -> None:
    said = refused(started(tmp_path, "workspace", *without((UNSHARE, errno.EPERM))), tmp_path)
    assert "user namespaces are not available: Operation not permitted" in said


@pytest.mark.promise("X12")
def test_bubblewrap_without_user_namespaces_is_refused_in_its_own_words(tmp_path: Path) -> None:
    around = without((CLONE3, errno.ENOSYS), (UNSHARE, errno.EPERM), code=WITHOUT_NAMESPACES)
    said = refused(started(tmp_path, "strict", *around), tmp_path)
    assert "so nothing is started: bwrap: " in said


@pytest.mark.promise("X12")
def test_a_machine_without_bubblewrap_is_refused(tmp_path: Path) -> None:
    hide = 'mount --bind /dev/null /usr/bin/bwrap && exec "$@"'
    said = refused(started(tmp_path, "strict", "unshare", "-rm", "sh", "-c", hide, "sh"), tmp_path)
    assert "there is no /usr/bin/bwrap; install bubblewrap" in said


@pytest.mark.parametrize("level", LEVELS)
def test_a_working_folder_that_holds_everything_is_refused(tmp_path: Path, level: str) -> None:
    (tmp_path / "work").symlink_to(tmp_path / "home")
    (tmp_path / "home").mkdir()
    done = started(tmp_path, level)
    assert done.returncode == 2
    assert "contains your home folder" in done.stderr


@pytest.mark.promise("X12")
@pytest.mark.parametrize("level", LEVELS)
def test_no_level_starts_where_its_means_are_missing(tmp_path: Path, level: str) -> None:
    assert refused_without(tmp_path, level)


def test_an_unknown_level_is_refused(tmp_path: Path) -> None:
    assert 'There is no sandbox "loose"' in refused(started(tmp_path, "loose"), tmp_path)


def test_a_link_in_the_place_of_what_is_protected_is_refused(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / ".git").symlink_to(tmp_path)
    done = started(tmp_path, "workspace")
    assert done.returncode == 2 and ".git is a link" in done.stderr


@pytest.mark.parametrize("place", [".", "lib"])
def test_a_folder_of_pythonpath_that_commands_can_write_is_refused(place: str, tmp_path: Path) -> None:
    """Much is loaded when it is needed: what a command has written there by then would run outside."""
    done = started(tmp_path, "workspace", "env", f"PYTHONPATH={place}")
    assert done.returncode == 2
    assert f"Python looks for modules in {(tmp_path / 'work' / place).resolve()}, and what" in done.stderr
    assert "without that folder in PYTHONPATH" in done.stderr
    assert not (tmp_path / "work" / "ran").exists()


def test_a_program_beside_what_commands_write_gets_no_sandbox_unless_it_is_started_safely(tmp_path: Path) -> None:
    surroundings(tmp_path)
    code = """
import tau
with tau.sync.open(sandbox="workspace", agent_dir="../agent", script=[{"text": "ok"}]) as agent:
    agent.bash("echo 'print(\\"pwned\\")' > html.py")
    agent.prompt("hi")
    print(agent.export_html("../page.html"))
"""
    (tmp_path / "work" / "program.py").write_text(code)
    env = {**os.environ, "HOME": str(tmp_path / "home")}
    words = [sys.executable, "program.py"]
    done = subprocess.run(words, cwd=tmp_path / "work", env=env, capture_output=True, text=True)
    assert done.returncode and "Start it with -P" in done.stderr
    words = [sys.executable, "-P", "program.py"]
    done = subprocess.run(words, cwd=tmp_path / "work", env=env, capture_output=True, text=True)
    assert (done.returncode, "pwned" in done.stdout) == (0, False), done.stderr


def test_what_not_everybody_may_read_of_the_system_is_found(tmp_path: Path) -> None:
    for name in ("open", "shut"):
        (tmp_path / name).mkdir()
        for file in ("public", "private"):
            (tmp_path / name / file).touch()
        (tmp_path / name / "private").chmod(0o640)
    (tmp_path / "shut").chmod(0o750)
    (tmp_path / "link").symlink_to("shut")
    assert sorted(not_for_all(str(tmp_path))) == [f"{tmp_path}/open/private", f"{tmp_path}/shut"]


def test_session_files_that_commands_could_write_are_refused(tmp_path: Path) -> None:
    done = started(tmp_path, "workspace", "env", f"PI_CODING_AGENT_SESSION_DIR={tmp_path / 'work'}")
    assert done.returncode == 2 and "--session-dir" in done.stderr
