"""Quick imports: the same modules as without, and never code that does not belong to the source file."""

from __future__ import annotations

import compileall
import json
import os
import py_compile
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

INSTALL = "from tau.cli import quick_imports; quick_imports.PACKAGES = ('sample.',); quick_imports.install()\n"
ABOUT = """
import json, sys
def about(module):
    spec = module.__spec__
    return [module.__file__, module.__cached__, module.__package__, module.__name__, getattr(module, '__path__', None),
            spec.origin, spec.cached, spec.has_location, spec.parent, spec.submodule_search_locations]
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "sample"
    (folder / "inner").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "inner" / "__init__.py").write_text("here = 'inner'\n")
    (folder / "inner" / "deep.py").write_text("value = 1\n")
    (folder / "data.txt").write_text("data")
    (folder / "one.py").write_text("value = 1\ndef fail():\n    raise ValueError('here')\n")
    compileall.compile_dir(folder, quiet=2)
    return folder


def run(package: Path, code: str, *flags: str, env: Mapping[str, str] | None = None) -> str:
    surroundings = {**os.environ, "PYTHONPATH": str(package.parent), **(env or {})}
    surroundings.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run([sys.executable, *flags, "-c", code], env=surroundings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_modules_say_of_themselves_what_they_always_do(package: Path) -> None:
    names = ("sample.one", "sample.inner", "sample.inner.deep")
    code = f"{ABOUT}\nimport {', '.join(names)}\nprint(json.dumps([about(sys.modules[name]) for name in {names!r}]))"
    used = "; print(type(sys.modules['sample.one'].__loader__).__name__)"
    out = run(package, INSTALL + code + used).splitlines()
    assert json.loads(out[0]) == json.loads(run(package, code))
    assert out[1] == "CompiledLoader"


@pytest.mark.parametrize("change", ["size", "time"])
def test_a_changed_source_file_is_compiled_again(package: Path, change: str) -> None:
    file = package / "one.py"
    before = file.stat()
    file.write_text(file.read_text().replace("value = 1", "value = 2" if change == "time" else "value = 2000"))
    if change == "size":
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    else:
        os.utime(file, (before.st_atime, before.st_mtime + 10))
    expected = "2\n" if change == "time" else "2000\n"
    assert run(package, INSTALL + "import sample.one; print(sample.one.value)") == expected


def test_other_kinds_of_compiled_files_are_left_to_python(package: Path) -> None:
    """A file that is checked by its hash, one of another Python, and a broken one."""
    file = package / "one.py"
    compiled = Path(py_compile.compile(str(file), invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH) or "")
    used = INSTALL + "import sample.one; print(sample.one.value, type(sample.one.__loader__).__name__)"
    assert run(package, used) == "1 SourceFileLoader\n"
    compiled.write_bytes(b"\0" * 16 + compiled.read_bytes()[16:])
    assert run(package, used) == "1 SourceFileLoader\n"
    compiled.unlink()
    assert run(package, used) == "1 SourceFileLoader\n"
    assert compiled.exists()


def test_options_that_change_the_compiled_file_are_respected(package: Path, tmp_path: Path) -> None:
    used = INSTALL + "import sample.one; print(sample.one.__cached__)"
    assert run(package, used, "-O").endswith(".opt-1.pyc\n")
    assert run(package, used, env={"PYTHONPYCACHEPREFIX": str(tmp_path / "cache")}).startswith(str(tmp_path / "cache"))


def test_data_files_and_tracebacks_work(package: Path) -> None:
    code = """
import pkgutil, traceback, inspect, sample.one
print(pkgutil.get_data('sample.inner', '../data.txt').decode(), inspect.getsource(sample.one.fail).count('raise'))
try:
    sample.one.fail()
except ValueError:
    print("raise ValueError('here')" in traceback.format_exc())
"""
    assert run(package, INSTALL + code).split() == ["data", "1", "True"]


def test_a_missing_module_is_still_missing(package: Path) -> None:
    code = "\ntry:\n    import sample.nothing\nexcept ModuleNotFoundError as error:\n    print(error.name)"
    assert run(package, INSTALL + code) == "sample.nothing\n"
