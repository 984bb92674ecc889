"""Build the wheel and the source distribution, and try the wheel in a clean environment: `make dist`.

    python scripts/check_dist.py [FOLDER]

FOLDER (default: dist) is emptied first; it gets the wheel, the sdist and a bill of materials (scripts/sbom.py). Both
are built a second time from a copy, and must have the same bytes. The environment is a new one outside of the
repository; pip needs a package index for the dependencies. The release fails if it needs more than MAX_PACKAGES
packages or MAX_INSTALLED_MB.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Any

from flit_core import buildapi

sys.path.insert(0, str(Path(__file__).parent))

import sbom

ROOT = Path(__file__).parents[1]
MAX_PACKAGES = 12  # tau and everything that pip installs with it
MAX_INSTALLED_MB = 40
WITHOUT_GIT = 1_577_836_800  # 2020-01-01
SMOKE_TEST = """
import tau, tau.sync
with tau.sync.open(model="demo", session=False) as agent:
    result = agent.prompt("list the files here")
    assert "notes.txt" in result.text, result
print(tau.__file__)
"""


class ReleaseError(Exception):
    """The distribution is not fit for a release."""


def source_date(root: Path = ROOT) -> int:
    """The time of the files in the archives, in seconds: that of the commit, so that every build has the same."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    try:
        done = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=root, capture_output=True, text=True)
    except OSError:
        return WITHOUT_GIT
    return int(done.stdout) if done.returncode == 0 and done.stdout.strip() else WITHOUT_GIT


def build(folder: Path, root: Path = ROOT, date: int | None = None) -> tuple[Path, Path]:
    """Build a wheel and an sdist into a folder. `date` is that of their files; default: of the commit."""
    folder.mkdir(parents=True, exist_ok=True)
    before, own = Path.cwd(), os.environ.get("SOURCE_DATE_EPOCH")
    os.environ["SOURCE_DATE_EPOCH"] = str(source_date(root) if date is None else date)
    os.chdir(root)
    try:
        wheel, sdist = buildapi.build_wheel(str(folder)), buildapi.build_sdist(str(folder))
    finally:
        os.chdir(before)
        os.environ.pop("SOURCE_DATE_EPOCH")
        if own is not None:
            os.environ["SOURCE_DATE_EPOCH"] = own
    return folder / wheel, folder / sdist


def differences(built: tuple[Path, Path], folder: Path, root: Path = ROOT) -> Iterator[str]:
    """Build again below `folder` from a copy with other times and modes, and yield what has other bytes."""
    copy, date = folder / "copy", source_date(root)
    copy.mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"):
        shutil.copyfile(root / name, copy / name)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(root / "src", copy / "src", symlinks=True, ignore=ignored, copy_function=shutil.copyfile)
    for file in copy.rglob("*"):
        if not file.is_symlink():
            file.chmod(0o700 if file.is_dir() else 0o600)
    for first, second in zip(built, build(folder / "again", copy, date), strict=True):
        if first.read_bytes() != second.read_bytes():
            yield f"{first.name} has other bytes when it is built again"


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser().parsestr(archive.read(name).decode())


def problems(wheel: Path, sdist: Path, root: Path = ROOT) -> Iterator[str]:
    """Yield what is wrong with the files, without installing anything."""
    project: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    about = metadata(wheel)
    version = project["version"]
    for field, expected in (
        ("Name", project["name"]),
        ("Version", version),
        ("Summary", project["description"]),
        ("Requires-Python", project["requires-python"]),
        ("License-Expression", project["license"]),
    ):
        if about[field] != expected:
            yield f"{field} is {about[field]!r} instead of {expected!r}"
    if f'__version__ = "{version}"' not in (root / "src/tau/__init__.py").read_text(encoding="utf-8"):
        yield f"tau.__version__ is not {version}, the version in pyproject.toml"
    if f"\n## {version}\n" not in (root / "CHANGELOG.md").read_text(encoding="utf-8"):
        yield f"CHANGELOG.md has no section {version}"
    yield from _content_problems(wheel, sdist, root)


def _content_problems(wheel: Path, sdist: Path, root: Path) -> Iterator[str]:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    with tarfile.open(sdist) as unpacked:
        packed = {name.partition("/")[2] for name in unpacked.getnames()}
    if extra := sorted(name for name in names if "__pycache__" in name or not name.startswith(("tau/", "tau_agent-"))):
        yield f"the wheel contains {', '.join(extra)}"
    sources = [
        file.relative_to(root / "src").as_posix()
        for file in sorted((root / "src" / "tau").rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts
    ]
    if missing := [name for name in sources if name not in names]:
        yield f"the wheel lacks {', '.join(missing)}"
    if missing := [name for name in (*(f"src/{name}" for name in sources), "pyproject.toml", "README.md", "LICENSE")
                   if name not in packed]:  # fmt: skip
        yield f"the sdist lacks {', '.join(missing)}"


def try_wheel(wheel: Path, folder: Path) -> str:
    """Install a wheel into a new environment below `folder`, run it there, and return a line about its size."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    env |= {"HOME": str(folder), "PI_CODING_AGENT_DIR": str(folder / "agent")}
    work, scripts = folder / "work", folder / "venv" / "bin"
    work.mkdir()
    (work / "notes.txt").write_text("hello\n")

    def run(*words: str | Path) -> str:
        done = subprocess.run([*map(str, words)], cwd=work, env=env, capture_output=True, text=True, timeout=600)
        if done.returncode:
            raise ReleaseError(f"{' '.join(map(str, words))}: {done.stdout}{done.stderr}")
        return done.stdout

    run(sys.executable, "-m", "venv", folder / "venv")
    installed = folder / "venv" / "lib"
    empty = _megabytes(installed)
    run(scripts / "python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-compile", wheel)
    packages = run(scripts / "python", "-m", "pip", "--disable-pip-version-check", "freeze", "--all").splitlines()
    packages = [line for line in packages if not line.startswith(("pip==", "setuptools=="))]
    size = _megabytes(installed) - empty

    place = run(scripts / "python", "-c", SMOKE_TEST).strip()
    if not Path(place).is_relative_to(folder):
        raise ReleaseError(f"tau was imported from {place}, not from the wheel")
    version = metadata(wheel)["Version"]
    if run(scripts / "tau", "--version").strip() != version:
        raise ReleaseError(f"tau --version is not {version}")
    if "notes.txt" not in run(scripts / "pi", "-p", "--model", "demo", "--session", "s.jsonl", "list the files here"):
        raise ReleaseError("pi -p does not answer")
    run(scripts / "pi", "--export", "s.jsonl", "s.html")
    if len(packages) > MAX_PACKAGES or size > MAX_INSTALLED_MB:
        raise ReleaseError(
            f"{len(packages)} packages, {size:.1f} MB: the limits are {MAX_PACKAGES}, {MAX_INSTALLED_MB}"
        )
    return f"{len(packages)} packages, {size:.1f} MB installed"


def _megabytes(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def main(words: list[str]) -> int:
    folder = Path(words[0] if words else ROOT / "dist").absolute()
    shutil.rmtree(folder, ignore_errors=True)
    wheel, sdist = build(folder)
    found = list(problems(wheel, sdist))
    bill = folder / f"{wheel.name.removesuffix('-py3-none-any.whl')}.cdx.json"
    bill.write_text(sbom.text(wheel, source_date()), encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="tau-dist-") as name:
        found += differences((wheel, sdist), Path(name) / "second")
        try:
            size = try_wheel(wheel, Path(name).resolve())
        except ReleaseError as error:
            found.append(str(error))
    for problem in found:
        print(f"not fit for a release: {problem}", file=sys.stderr)
    if not found:
        print(f"{wheel}\n{sdist}\n{bill}\n{size}, the same bytes when built again")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
