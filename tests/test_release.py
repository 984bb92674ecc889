"""The wheel and the sdist are complete, and agree with pyproject.toml and the changelog.

`make dist` also installs the wheel into a clean environment; that needs a package index, so it is not done here.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def check_dist() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_dist", ROOT / "scripts" / "check_dist.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_wheel_and_the_sdist_are_fit_for_a_release(check_dist: ModuleType, tmp_path: Path) -> None:
    wheel, sdist = check_dist.build(tmp_path / "dist")
    assert list(check_dist.problems(wheel, sdist)) == []
    assert list(check_dist.differences((wheel, sdist), tmp_path / "second")) == []


def test_a_release_has_a_bill_of_materials(check_dist: ModuleType, tmp_path: Path) -> None:
    """With every package of the lock files, their hashes and the hash of the wheel; made twice it is the same."""
    wheel, _ = check_dist.build(tmp_path / "dist")
    text = check_dist.sbom.text(wheel, 0)
    assert text == check_dist.sbom.text(wheel, 0)
    bill = json.loads(text)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    own = bill["metadata"]["component"]
    assert own["hashes"][0]["content"] == hashlib.sha256(wheel.read_bytes()).hexdigest()
    components = {one["name"]: one for one in bill["components"]}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.split(r"[ ><=;]", one)[0] for one in project["dependencies"]}
    assert needed <= {name for name, one in components.items() if one["scope"] == "required"}
    assert components["starlette"]["scope"] == "optional"
    references = {one["bom-ref"] for one in bill["components"]} | {own["bom-ref"]}
    assert {one["ref"] for one in bill["dependencies"]} == references
    assert all(one["externalReferences"][0]["hashes"] for one in bill["components"])


def test_a_package_without_a_hash_is_refused(check_dist: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("msgspec==0.22.0\n")
    with pytest.raises(ValueError, match="msgspec has no hash"):
        list(check_dist.sbom.pins(tmp_path / "requirements.txt"))


def test_a_version_without_a_section_in_the_changelog_is_a_problem(check_dist: ModuleType, tmp_path: Path) -> None:
    wheel, sdist = check_dist.build(tmp_path / "dist")
    (tmp_path / "src").symlink_to(ROOT / "src")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n")
    version = check_dist.metadata(wheel)["Version"]
    assert list(check_dist.problems(wheel, sdist, tmp_path)) == [f"CHANGELOG.md has no section {version}"]


def test_a_clone_can_be_installed_with_pip(tmp_path: Path) -> None:
    """Offline: the dependencies are those of this environment, and the build tool is installed."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--no-build-isolation", "--target", tmp_path, ROOT], check=True, capture_output=True)
    command = [sys.executable, "-c", "import tau; print(tau.__file__, tau.__version__)"]
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=True)
    place, version = done.stdout.split()
    assert Path(place) == tmp_path / "tau" / "__init__.py"
    assert version == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert sorted(file.name for file in (tmp_path / "bin").iterdir()) == ["pi", "tau"]


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed: the picture was not compared")
def test_the_picture_of_the_terminal_shows_what_the_commands_print() -> None:
    command = [sys.executable, ROOT / "scripts" / "make_pictures.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
