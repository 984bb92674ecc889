"""Changes of folders with packages: one at a time, and in one step."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.fleets import wait_for
from tau.store.packages import staging
from tau.store.packages.busy import exclusive
from tau.store.packages.errors import PackageError
from tau.store.packages.npm_lock import check_origins, dependencies_of, with_scripts
from tau.store.packages.programs import run_program
from tau.store.packages.staging import copy_tree, exchange, make_independent, remove_leftovers, staging_folder

HOLD = "import sys; from pathlib import Path; from tau.store.packages.busy import exclusive\n"
HOLD += "with exclusive(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"

RUN = """
import os, signal, subprocess, sys, time
from pathlib import Path
from tau.store.packages.busy import exclusive
from tau.store.packages.programs import run_program
def run():
    with exclusive(Path.cwd()):
        run_program(sys.argv[1:], Path.cwd(), show=print)
"""
# Killed after the fork, and before the child can say that it wants to end with us. The child keeps stdout open.
KILLED_EARLY = f"""{RUN}
start, tau, stdout = subprocess.Popen.__init__, os.getpid(), os.dup(1)
def start_late(*words, preexec_fn, pass_fds=(), **more):
    def late():
        os.kill(tau, signal.SIGKILL)
        while os.getppid() == tau:
            time.sleep(0.001)
        preexec_fn()
    start(*words, preexec_fn=late, pass_fds=(*pass_fds, stdout), **more)
subprocess.Popen.__init__ = start_late
run()
"""


@pytest.mark.promise("U06")
def test_a_second_change_waits_and_then_says_who_is_at_work(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    with pytest.raises(PackageError, match=f"changed by process {holder.pid}") as raised, exclusive(tmp_path, 0.1):
        pass
    assert str(tmp_path) in str(raised.value)
    with holder:  # closes its pipes
        holder.kill()
    with exclusive(tmp_path, 10):
        assert list(tmp_path.iterdir()) == []  # the lock leaves no file


@pytest.mark.promise("U05")
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere programs do not end with tau")
def test_a_program_does_not_run_if_tau_is_killed_while_it_starts_it(tmp_path: Path) -> None:
    words = [sys.executable, "-c", KILLED_EARLY, "touch", "ran"]
    done = subprocess.run(words, cwd=tmp_path, stdout=subprocess.PIPE, timeout=60, check=False)
    assert (done.returncode, list(tmp_path.iterdir())) == (-signal.SIGKILL, [])


@pytest.mark.promise("U05")
@pytest.mark.parametrize("program", ["sh", "node"])
def test_a_change_lasts_until_what_a_killed_tau_started_has_ended(tmp_path: Path, program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not on this machine: a change with it was NOT tried")
    os.mkfifo(tmp_path / "held")
    held = os.open(tmp_path / "held", os.O_RDWR)
    below = "exec < held; touch started; read line; touch ended"
    words = {
        "sh": ["sh", "-c", f"sh -c '{below}'; true"],
        "node": ["node", "-e", f"require('child_process').spawnSync('sh', ['-c', '{below}'])"],
    }
    tau = subprocess.Popen([sys.executable, "-c", f"{RUN}run()", *words[program]], cwd=tmp_path)
    try:
        wait_for((tmp_path / "started").exists)
        tau.kill()
        tau.wait()
        with pytest.raises(PackageError, match="changed by another process"), exclusive(tmp_path, 0.1):
            pass
    finally:
        tau.kill()
        os.close(held)
    with exclusive(tmp_path):
        assert (tmp_path / "ended").exists()


def fill(folder: Path, text: str) -> Path:
    (folder / "node_modules" / "kit").mkdir(parents=True)
    (folder / "node_modules" / "kit" / "index.js").write_text(text)
    (folder / "package.json").write_text(text)
    return folder


def content(folder: Path) -> set[str]:
    return {path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("one_step", [True, False])
def test_the_new_state_replaces_the_old_one(tmp_path: Path, one_step: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not one_step:
        monkeypatch.setattr(staging, "_exchange", lambda one, other: False)
    target = fill(tmp_path / "npm", "old")
    with staging_folder(target) as folder:
        exchange(fill(folder / "npm", "new"), target)
        assert content(target) == {"new"}
    assert [path.name for path in tmp_path.iterdir()] == ["npm"]


@pytest.mark.promise("U05")
def test_what_was_cut_off_between_two_steps_is_undone(tmp_path: Path) -> None:
    fill(tmp_path / ".tau-staging-1" / "npm.old", "old")
    fill(tmp_path / ".tau-staging-1" / "npm", "new")
    remove_leftovers(tmp_path)
    assert content(tmp_path / "npm") == {"old"} and [path.name for path in tmp_path.iterdir()] == ["npm"]


def test_a_root_that_is_a_link_stays_one(tmp_path: Path) -> None:
    fill(tmp_path / "elsewhere" / "real", "old")
    (tmp_path / "npm").symlink_to(tmp_path / "elsewhere" / "real")
    with staging_folder(Path(os.path.realpath(tmp_path / "npm"))) as folder:
        exchange(fill(folder / "npm", "new"), tmp_path / "npm")
    assert (tmp_path / "npm").is_symlink() and content(tmp_path / "elsewhere" / "real") == {"new"}


def test_a_copy_shares_files_of_packages_until_they_may_change(tmp_path: Path) -> None:
    root = fill(tmp_path / "npm", "old")
    (root / "node_modules" / ".package-lock.json").write_text("old")
    (root / "node_modules" / ".bin").mkdir()
    (root / "node_modules" / ".bin" / "kit").symlink_to("../kit/index.js")
    copy = tmp_path / "copy"
    copy_tree(root, copy)
    shared = [path for path in copy.rglob("*") if path.is_file() and path.stat().st_nlink > 1 and not path.is_symlink()]
    assert [path.name for path in shared] == ["index.js"]
    assert os.readlink(copy / "node_modules" / ".bin" / "kit") == "../kit/index.js"
    make_independent(copy / "node_modules" / "kit")
    (copy / "node_modules" / "kit" / "index.js").write_text("new")
    assert (root / "node_modules" / "kit" / "index.js").read_text() == "old"


GOOD = {"version": "1.0.0", "resolved": "https://example.org/x.tgz", "integrity": "sha512-abc"}


@pytest.mark.promise("U02")
@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (GOOD, ""),
        ({**GOOD, "resolved": "http://127.0.0.1:8080/x.tgz"}, ""),
        ({**GOOD, "inBundle": True, "resolved": None, "integrity": None}, ""),
        ({**GOOD, "resolved": "http://example.org/x.tgz"}, "over https"),
        ({**GOOD, "resolved": "git+ssh://git@example.org/x.git#abc"}, "over https"),
        ({**GOOD, "resolved": "http://127.0.0.1.example.org/x.tgz"}, "over https"),
        ({**GOOD, "resolved": "file:../x", "link": True}, "over https"),
        ({**GOOD, "integrity": "sha1-abc"}, "SHA-512"),
        ({"version": "1.0.0", "resolved": GOOD["resolved"]}, "SHA-512"),
    ],
)
def test_a_package_whose_origin_cannot_be_checked_is_refused(entry: dict[str, object], told: str) -> None:
    packages = {"node_modules/x": entry}
    if not told:
        check_origins(packages, {})
        return
    with pytest.raises(PackageError, match=told):
        check_origins(packages, {})
    check_origins(packages, packages)  # installed before, by the user


def test_the_dependencies_of_a_package_are_found_where_node_finds_them() -> None:
    packages = {
        "node_modules/kit": {"dependencies": {"a": "1"}, "optionalDependencies": {"gone": "1"}},
        "node_modules/a": {"dependencies": {"b": "1"}},
        "node_modules/a/node_modules/b": {"hasInstallScript": True},
        "node_modules/b": {},
        "node_modules/other": {"hasInstallScript": True},
    }
    needed = dependencies_of(packages, "node_modules/kit")
    assert sorted(needed) == ["node_modules/a", "node_modules/a/node_modules/b"]
    assert with_scripts(needed) == ["b"]


@pytest.mark.promise("U12")
def test_a_program_that_fails_is_one_sentence(tmp_path: Path) -> None:
    shown: list[str] = []
    with pytest.raises(PackageError, match=r"^sh failed with code 3: npm error 404 Not Found$"):
        run_program(
            ["sh", "-c", "echo npm error code E404; echo npm error 404 Not Found >&2; exit 3"],
            tmp_path,
            show=shown.append,
        )
    assert sorted(shown) == ["npm error 404 Not Found", "npm error code E404"]
    with pytest.raises(PackageError, match="is not on PATH"):
        run_program(["no-such-program"], tmp_path, show=shown.append)
