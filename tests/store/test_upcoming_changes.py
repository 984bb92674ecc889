"""Trust in a project while tau changes its packages: the content that is to come is known before it is there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from support.package_place import write
from tau.store.trust import decide, fingerprint, save_decision
from tau.store.upcoming_changes import ChangedFiles, UpcomingChange, expect_change

SETTINGS = {"packages": ["npm:kit", "git:example.org/me/tools"]}
NPM = {"package-lock.json": "1", "node_modules/kit/index.ts": "1", "node_modules/dep/index.js": "1"}
NEW_NPM = {"package-lock.json": "2", "node_modules/kit/index.ts": "2", "node_modules/kit/more.ts": "2"}

# Manifests that name a file which trust does not cover as a file of the package.
NPM_ENTRY = {"node_modules/kit/package.json": '{"pi": {"extensions": ["../dep/index.js"]}}', **NPM}
GIT_ENTRY = {"package.json": '{"pi": {"extensions": ["node_modules/dep/x.ts"]}}', "node_modules/dep/x.ts": "x"}


class Step(NamedTuple):
    """`files` are written (None: removed), and folders replaced by others beside the project (None: removed)."""

    files: dict[str, str | None] = {}
    folders: dict[str, dict[str, str] | None] = {}
    packages: list[str] | None = None


STEPS = {
    "lock": Step({".pi/packages.lock.json": "{}"}),
    "no lock": Step({".pi/packages.lock.json": None}),
    "npm": Step(folders={".pi/npm": NEW_NPM}),
    "npm of a package that is not named": Step(folders={".pi/npm": {"node_modules/other/index.ts": "x"}}),
    "git": Step(folders={".pi/git/example.org/me/tools": {"skills/x/SKILL.md": "x", ".git/HEAD": "x"}}),
    "npm with an extension in a dependency": Step(folders={".pi/npm": NPM_ENTRY}),
    "git with an extension in a dependency": Step(folders={".pi/git/example.org/me/tools": GIT_ENTRY}),
    "another repository": Step(folders={".pi/git/example.org/you/more": {"index.ts": "x"}}),
    "no repository": Step(folders={".pi/git/example.org/me/tools": None}),
    "ignored": Step({".pi/git/.gitignore": "*"}),
    "settings": Step({".pi/settings.json": json.dumps({"packages": ["npm:dep"]})}, packages=["npm:dep"]),
    "local": Step({".pi/settings.json": json.dumps({"packages": ["../own"]})}, packages=["../own"]),
}


def make_project(folder: Path, *, empty: bool) -> Path:
    write(folder, {"own/index.ts": "own"})
    if not empty:
        write(folder, {".pi/settings.json": json.dumps(SETTINGS), ".pi/packages.lock.json": "{ }"})
        write(folder / ".pi" / "npm", NPM)
        write(folder / ".pi" / "git" / "example.org" / "me" / "tools", {"index.ts": "1"})
    return folder


def carry_out(project: Path, step: Step, change: UpcomingChange) -> None:
    for path, data in change.files.items():
        path.unlink(missing_ok=True)
        if data is not None:
            write(path.parent, {path.name: data.decode()})
    for folder, place in change.folders.items():
        shutil.rmtree(folder, ignore_errors=True)
        if place is not None:
            folder.parent.mkdir(parents=True, exist_ok=True)
            place.rename(folder)


def upcoming(project: Path, beside: Path, step: Step) -> UpcomingChange:
    folders: dict[Path, Path | None] = {}
    for name, content in step.folders.items():
        folders[project / name] = None if content is None else beside / "new"
        write(beside / "new", content or {})
    files = {project / name: None if text is None else text.encode() for name, text in step.files.items()}
    return UpcomingChange(files, folders, step.packages)


@pytest.mark.parametrize("empty", [True, False])
@pytest.mark.parametrize("name", STEPS)
def test_the_content_after_a_step_is_known_before_it(tmp_path: Path, name: str, empty: bool) -> None:
    project = make_project(tmp_path / "project", empty=empty)
    change = upcoming(project, tmp_path / "beside", STEPS[name])
    expected = fingerprint(project, files=ChangedFiles(change))
    carry_out(project, STEPS[name], change)
    found = fingerprint(project)
    assert (expected.digest, expected.files) == (found.digest, found.files)


def test_a_project_is_trusted_before_and_after_an_expected_change_but_not_after_another(tmp_path: Path) -> None:
    project, agent = make_project(tmp_path / "project", empty=False), tmp_path / "agent"
    agent.mkdir()
    (tmp_path / "link").symlink_to(project)
    save_decision(project, agent, trusted=True)
    lock = tmp_path / "link" / ".pi" / "packages.lock.json"
    expect_change(tmp_path / "link", agent, UpcomingChange({lock: b"new"}))
    assert decide(project, agent, approve=None).trusted
    lock.write_bytes(b"new")
    assert decide(project, agent, approve=None).trusted
    lock.write_bytes(b"other")
    assert not decide(project, agent, approve=None).trusted
    lock.write_bytes(b"new")
    save_decision(project, agent, trusted=True)  # the change is complete: the content before it is history
    lock.write_bytes(b"{ }")
    assert not decide(project, agent, approve=None).trusted
