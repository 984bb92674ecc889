"""Trust in a project covers its packages: settings, lock files, and the packages' own files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tau.store.trust import decide, fingerprint, save_decision

DIGEST = {"integrity": "sha512-x"}
FILES = {
    ".pi/settings.json": json.dumps({"packages": ["npm:kit", "git:example.org/me/repo", "../local"]}),
    ".pi/packages.lock.json": "{}",
    ".pi/npm/package-lock.json": json.dumps(
        {"packages": {f"node_modules/{name}": DIGEST for name in ("kit", "dep", "kit/node_modules/inner")}}
    ),
    ".pi/npm/package.json": "{}",
    ".pi/npm/node_modules/kit/index.ts": "",
    ".pi/npm/node_modules/kit/node_modules/inner/index.js": "",
    ".pi/npm/node_modules/dep/index.js": "",
    ".pi/git/example.org/me/repo/skills/x/SKILL.md": "",
    ".pi/git/example.org/me/repo/.git/HEAD": "ref: refs/heads/main",
    ".pi/git/example.org/me/repo/package-lock.json": json.dumps({"packages": {"node_modules/dep": DIGEST}}),
    ".pi/git/example.org/me/repo/node_modules/dep/index.js": "",
    "local/index.ts": "",
    "local/.git/HEAD": "",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    save_decision(folder, tmp_path / "agent", trusted=True)
    return folder


def is_trusted(project: Path) -> bool:
    return decide(project, project.parent / "agent", approve=None).trusted


COVERED = [
    ".pi/settings.json",
    ".pi/packages.lock.json",
    ".pi/npm/package-lock.json",
    ".pi/npm/node_modules/kit/index.ts",
    ".pi/git/example.org/me/repo/skills/x/SKILL.md",
    ".pi/git/example.org/me/repo/package-lock.json",
    "local/index.ts",
]


def test_every_file_of_the_packages_is_named_once(project: Path) -> None:
    assert sorted(fingerprint(project).files) == sorted([*COVERED, ".pi/npm/package.json"])
    assert is_trusted(project)


@pytest.mark.promise("U08")
@pytest.mark.parametrize("name", COVERED)
def test_a_change_of_a_package_ends_the_trust(project: Path, name: str) -> None:
    with (project / name).open("a") as file:
        file.write(" ")
    assert not is_trusted(project)


@pytest.mark.parametrize(
    "name", [name for name in FILES if "/.git/" in name or name.count("node_modules") == 2 or "/dep/" in name]
)
def test_dependencies_that_a_lock_file_lists_and_the_files_of_git_are_not_covered(project: Path, name: str) -> None:
    with (project / name).open("a") as file:
        file.write(" ")
    assert is_trusted(project)


@pytest.mark.promise("U08")
def test_a_new_file_in_a_package_ends_the_trust(project: Path) -> None:
    (project / ".pi" / "npm" / "node_modules" / "kit" / "more.ts").touch()
    assert not is_trusted(project)


@pytest.mark.promise("U08")
@pytest.mark.parametrize("folder", ["npm", "npm/node_modules/kit", "git/example.org/me/repo"])
def test_a_dependency_that_no_lock_file_lists_ends_the_trust(project: Path, folder: str) -> None:
    planted = project / ".pi" / folder / "node_modules" / "more" / "index.js"
    planted.parent.mkdir(parents=True)
    planted.write_text("1")
    assert not is_trusted(project)
    save_decision(project, project.parent / "agent", trusted=True)
    assert is_trusted(project)
    planted.write_text("2")
    assert not is_trusted(project)
