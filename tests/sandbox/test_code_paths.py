"""Nothing that commands can write is loaded by a later start of tau, or by its extension processes."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from support.rpc_process import surroundings
from support.sandbox_escapes import LEVELS, missing, started
from tau.runtime.sandbox.import_paths import is_importable


@pytest.fixture(autouse=True)
def capable() -> None:
    for level in LEVELS:
        if why := missing(level):
            pytest.skip(why)


class Installed:
    """An environment that has tau, and what a test adds to it by `.pth` files, as editable installs do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = surroundings(folder)
        venv.create(folder / "venv", with_pip=False, symlinks=True)
        self.python = folder / "venv" / "bin" / "python"
        (self.packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
        places = [place for place in sys.path if place.endswith("-packages") or (Path(place) / "tau").is_dir()]
        self.name("tau.pth", *places)

    def name(self, file: str, *places: object) -> None:
        (self.packages / file).write_text("".join(f"{place}\n" for place in places))

    def start(self, level: str, *flags: str, **env: str) -> subprocess.CompletedProcess[str]:
        (self.folder / "script.json").write_text(
            '{"answers": [{"blocks": [{"tool": "bash", "arguments": {"command": "touch ran"}}]}, {"text": "done"}]}'
        )
        words = [self.python, *flags, "-m", "tau", "--mode", "rpc", "--model", "scripted", "--script", "../script.json"]
        return subprocess.run(
            [*words, "--sandbox", level],
            cwd=self.folder / "work",
            env={**self.env, **env},
            input='{"type": "prompt", "message": "go"}\n',
            capture_output=True,
            text=True,
            timeout=60,
        )

    def ran(self) -> bool:
        return (self.folder / "work" / "ran").exists()


@pytest.mark.parametrize("level", LEVELS)
def test_an_environment_of_its_own_is_fine(tmp_path: Path, level: str) -> None:
    done = Installed(tmp_path).start(level, "-P")
    assert (done.returncode, "Error" in done.stderr) == (0, False), done.stderr


@pytest.mark.promise("X10")
@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("level", LEVELS)
def test_a_project_that_is_installed_editable_beside_tau_is_refused(tmp_path: Path, level: str, exists: bool) -> None:
    """A command would write src/sitecustomize.py, or make src first: the next start of tau would import it."""
    made = Installed(tmp_path)
    source = tmp_path / "work" / "src"
    if exists:
        source.mkdir()
    made.name("__editable__.project.pth", "# a comment", "import os", source)
    done = made.start(level, "-P")
    assert (done.returncode, done.stdout, made.ran()) == (2, "", False)
    assert done.stderr == (
        f"Error: --sandbox {level}: Python looks for modules in {source}, and what commands write there would run "
        "outside of the sandbox. Install tau in an environment of its own, for example with pipx.\n"
    )


def test_a_relative_entry_is_looked_for_where_an_extension_process_is_started(tmp_path: Path) -> None:
    """setuptools puts names into sys.path that are no folders, unless a command makes them."""
    made = Installed(tmp_path)
    made.name("hook.pth", "import sys; sys.path.append('__editable__.x.__path_hook__')")
    done = made.start("workspace", "-P")
    assert done.returncode == 2
    assert f"looks for modules in {tmp_path / 'work' / '__editable__.x.__path_hook__'}" in done.stderr


def test_what_isolation_hides_from_tau_but_not_from_its_extensions_is_seen(tmp_path: Path) -> None:
    done = Installed(tmp_path).start("workspace", "-I", PYTHONPATH="lib")
    assert done.returncode == 2
    assert f"looks for modules in {tmp_path / 'work' / 'lib'}" in done.stderr and "PYTHONPATH" in done.stderr


@pytest.mark.parametrize(
    ("name", "value", "place"),
    [
        ("LD_LIBRARY_PATH", "/nowhere:", "."),
        ("LD_LIBRARY_PATH", "{tree}/lib", "lib"),
        ("LD_PRELOAD", "{tree}/x.so", "x.so"),
        ("PYTHONPYCACHEPREFIX", "{tree}/cache", "cache"),
    ],
)
def test_other_code_that_a_start_would_load_is_refused_too(tmp_path: Path, name: str, value: str, place: str) -> None:
    tree = tmp_path / "work"
    done = Installed(tmp_path).start("workspace", "-P", **{name: value.format(tree=tree)})
    assert done.returncode == 2
    assert str(Path(os.path.normpath(tree / place))) in done.stderr and name in done.stderr


def test_the_user_s_own_packages_cannot_be_granted(tmp_path: Path) -> None:
    """With a virtual environment that sees the system's packages, as with none, Python looks there as well."""
    made = Installed(tmp_path)
    config = tmp_path / "venv" / "pyvenv.cfg"
    config.write_text(config.read_text().replace("= false", "= true"))
    (tmp_path / "home" / ".local").mkdir()
    (tmp_path / "agent" / "settings.json").write_text('{"sandbox": {"writable": ["~/.local"]}}')
    done = made.start("workspace", "-P")
    assert done.returncode == 2, done.stderr
    assert f"looks for modules in {tmp_path / 'home' / '.local' / 'lib'}" in done.stderr
    assert "PYTHONNOUSERSITE=1" in done.stderr
    assert made.start("workspace", "-P", PYTHONNOUSERSITE="1").returncode == 0


def test_an_entry_that_is_protected_is_no_reason_to_refuse(tmp_path: Path) -> None:
    """The environment that tau itself is in, in the working folder."""
    made = Installed(tmp_path)
    (tmp_path / "venv").rename(tmp_path / "work" / ".venv")
    made.python = tmp_path / "work" / ".venv" / "bin" / "python"
    made.packages = next((tmp_path / "work" / ".venv" / "lib").glob("python*/site-packages"))
    made.name("more.pth", made.packages / "more")
    done = made.start("workspace", "-P")
    assert (done.returncode, "Error" in done.stderr) == (0, False), done.stderr


def test_a_working_folder_that_is_a_module_python_would_import_is_refused(tmp_path: Path) -> None:
    (tmp_path / "html").mkdir()
    (tmp_path / "work").symlink_to("html")
    done = started(tmp_path, "workspace", "env", f"PYTHONPATH={tmp_path}")
    assert done.returncode == 2 and f"looks for modules in {tmp_path}" in done.stderr
    names = {"html": True, "html/deeper": False, "sitecustomize": True, "project": False, ".": False}
    assert {name: is_importable(os.path.normpath(f"/a/{name}"), "/a") for name in names} == names


@pytest.mark.parametrize("where", ["beside", "work"])
def test_a_program_without_a_file_gets_a_sandbox_for_another_folder_than_its_own(tmp_path: Path, where: str) -> None:
    """As an interactive Python: modules are looked for where it was started."""
    env = surroundings(tmp_path)
    (tmp_path / "beside").mkdir()
    code = f"""
import tau
with tau.sync.open({str(tmp_path / "work")!r}, sandbox="workspace", script=[{{"text": "ok"}}]) as agent:
    print(agent.bash("echo inside").output)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path / where, env=env, capture_output=True, text=True)
    if where == "beside":
        assert done.stdout == "inside\n\n", done.stderr
    else:
        assert done.returncode and "Start it with -P" in done.stderr
