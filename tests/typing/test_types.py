"""Programs that use tau are checked strictly, as their authors may do: by mypy, and by pyright where it is."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tau.cli.extension import STARTER

ROOT = Path(__file__).parents[2]
NEEDS = {"fastapi_endpoint.py": "fastapi"}  # what is not installed has no types
PROGRAMS = [
    *sorted(file for file in Path(__file__).parent.glob("*.py") if not file.name.startswith("test_")),
    *sorted((ROOT / "examples" / "extensions").glob("*.py")),
    *sorted(file for file in (ROOT / "examples").glob("*.py") if find_spec(NEEDS.get(file.name, "tau"))),
]


@pytest.fixture
def starter(tmp_path: Path) -> Path:
    """What `tau extension new` writes."""
    file = tmp_path / "starter.py"
    file.write_text(STARTER.format(title="starter", name="starter", file=file.name))
    return file


def check(*words: str, starter: Path) -> None:
    done = subprocess.run([*words, *map(str, [*PROGRAMS, starter])], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(400)  # with nothing in its cache, on a machine that is slow
def test_mypy_has_nothing_to_say(starter: Path) -> None:
    check(sys.executable, "-m", "mypy", "--strict", "--no-error-summary", starter=starter)


@pytest.mark.timeout(400)
def test_pyright_has_nothing_to_say(starter: Path) -> None:
    pyright = shutil.which("pyright", path=str(Path(sys.executable).parent)) or shutil.which("pyright")
    if pyright is None:
        pytest.skip("pyright is not installed")
    check(pyright, "--pythonpath", sys.executable, starter=starter)


def test_the_package_says_that_it_has_types() -> None:
    assert (ROOT / "src" / "tau" / "py.typed").exists()
