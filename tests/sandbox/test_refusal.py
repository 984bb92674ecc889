"""X12: where a level cannot be enforced nothing is started, and the reason is told.

What a machine lacks is taken away for real, by a filter of system calls around the
whole program, or by a mount that hides bubblewrap: nothing in tau knows of it.
"""

from __future__ import annotations

import errno
import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from client import surroundings
from escapes import LEVELS, missing

LANDLOCK = 444
UNSHARE = {"x86_64": 272, "aarch64": 97}.get(platform.machine(), 0)
CLONE = {"x86_64": 56, "aarch64": 220}.get(platform.machine(), 0)
CLONE3 = 435

WITHOUT = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
refused, words = eval(sys.argv[1]), sys.argv[2:]
steps = [(0x20, 0, 0, 0)]
for number, result in refused:
    steps += [(0x15, 0, 1, number), (0x06, 0, 0, 0x50000 | result)]
steps.append((0x06, 0, 0, 0x7FFF0000))
program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
filter = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(program))
assert not libc.prctl(38, 1, 0, 0, 0) and not libc.prctl(22, 2, filter, 0, 0)
os.execvp(words[0], words)
"""
# bubblewrap makes its namespaces with clone, which cannot be refused altogether: the processes of Python need it.
WITHOUT_NAMESPACES = WITHOUT.replace(
    "steps.append(",
    f"steps += [(0x15, 0, 3, {CLONE}), (0x20, 0, 0, 16), (0x45, 0, 1, 0x10000000), (0x06, 0, 0, 0x50001)]\n"
    "steps.append(",
)


def program(folder: Path, level: str, *around: str) -> subprocess.CompletedProcess[str]:
    """tau, asked to have its model run a command that leaves a trace."""
    answers = [{"blocks": [{"tool": "bash", "arguments": {"command": "touch ran"}}]}, {"text": "done"}]
    (folder / "script.json").write_text(json.dumps({"answers": answers}))
    env = surroundings(folder)
    words = [sys.executable, "-m", "tau", "--mode", "rpc", "--model", "scripted", "--script", "../script.json"]
    prompt = json.dumps({"type": "prompt", "message": "go"})
    return subprocess.run(
        [*around, *words, "--sandbox", level],
        cwd=folder / "work",
        env=env,
        input=f"{prompt}\n",
        capture_output=True,
        text=True,
        timeout=60,
    )


def refused(done: subprocess.CompletedProcess[str], folder: Path) -> str:
    assert (done.returncode, done.stdout, (folder / "work" / "ran").exists()) == (2, "", False), done.stderr
    assert "Traceback" not in done.stderr
    assert list((folder / "work").iterdir()) == []
    return done.stderr


def without(*calls: tuple[int, int], code: str = WITHOUT) -> list[str]:
    return [sys.executable, "-c", code, repr(list(calls))]


@pytest.fixture(autouse=True)
def capable() -> None:
    for level in LEVELS:
        if why := missing(level):
            pytest.skip(why)


@pytest.mark.parametrize("level", LEVELS)
def test_the_same_question_is_answered_where_nothing_is_lacking(tmp_path: Path, level: str) -> None:
    done = program(tmp_path, level, *without())
    assert (done.returncode, (tmp_path / "work" / "ran").exists()) == (0, True), done.stderr


@pytest.mark.promise("X12")
def test_a_kernel_without_landlock_is_refused(tmp_path: Path) -> None:
    said = refused(program(tmp_path, "workspace", *without((LANDLOCK, errno.ENOSYS))), tmp_path)
    assert said == (
        "Error: --sandbox workspace cannot be enforced, so nothing is started: "
        "this kernel has no Landlock, or has it switched off (it is in Linux since 5.13).\n"
    )


@pytest.mark.promise("X12")
def test_landlock_that_is_not_let_do_its_work_is_refused(tmp_path: Path) -> None:
    said = refused(program(tmp_path, "workspace", *without((446, errno.EPERM))), tmp_path)
    assert "Landlock does not work" in said


@pytest.mark.promise("X12")
def test_a_machine_without_user_namespaces_is_refused(tmp_path: Path) -> None:
    said = refused(program(tmp_path, "workspace", *without((UNSHARE, errno.EPERM))), tmp_path)
    assert "user namespaces are not to be had here: Operation not permitted" in said


@pytest.mark.promise("X12")
def test_bubblewrap_without_user_namespaces_is_refused_in_its_own_words(tmp_path: Path) -> None:
    around = without((CLONE3, errno.ENOSYS), (UNSHARE, errno.EPERM), code=WITHOUT_NAMESPACES)
    said = refused(program(tmp_path, "strict", *around), tmp_path)
    assert "so nothing is started: bwrap: " in said


@pytest.mark.promise("X12")
def test_a_machine_without_bubblewrap_is_refused(tmp_path: Path) -> None:
    hide = 'mount --bind /dev/null /usr/bin/bwrap && exec "$@"'
    said = refused(program(tmp_path, "strict", "unshare", "-rm", "sh", "-c", hide, "sh"), tmp_path)
    assert "there is no /usr/bin/bwrap; install bubblewrap" in said


@pytest.mark.parametrize("level", LEVELS)
def test_a_working_folder_that_holds_everything_is_refused(tmp_path: Path, level: str) -> None:
    (tmp_path / "work").symlink_to(tmp_path / "home")
    (tmp_path / "home").mkdir()
    done = program(tmp_path, level)
    assert done.returncode == 2
    assert "holds your home folder" in done.stderr


def test_a_level_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    assert 'There is no sandbox "loose"' in refused(program(tmp_path, "loose"), tmp_path)


def test_a_link_in_the_place_of_what_is_protected_is_refused(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / ".git").symlink_to(tmp_path)
    done = program(tmp_path, "workspace")
    assert done.returncode == 2 and ".git is a link" in done.stderr


def test_session_files_that_commands_could_write_are_refused(tmp_path: Path) -> None:
    done = program(tmp_path, "workspace", "env", f"PI_CODING_AGENT_SESSION_DIR={tmp_path / 'work'}")
    assert done.returncode == 2 and "--session-dir" in done.stderr
