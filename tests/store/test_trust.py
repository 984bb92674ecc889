from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tau.records.settings import ProjectTrust, Settings
from tau.store import trust
from tau.store.context import prompt_file
from tau.store.settings import SettingsFile
from tau.store.trust import Decision, TrustFile, Untrustable, decide, fingerprint
from tau.store.trusted_files import TrustedFile


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    (tmp_path / "agent").mkdir()
    return tmp_path / "agent"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """With something of everything that needs trust."""
    place = tmp_path / "work"
    (place / ".pi" / "extensions" / "pack").mkdir(parents=True)
    for name in ("settings.json", "SYSTEM.md", "extensions/a.py", "extensions/pack/__init__.py"):
        (place / ".pi" / name).write_text("{}")
    return place


def decision_for(agent: Path, project: Path) -> Decision:
    return decide(project, agent, approve=None)


def is_trusted(agent: Path, project: Path) -> bool:
    decision = decision_for(agent, project)
    return decision.trusted and decision.warnings == []


def remember(agent: Path, project: Path) -> None:
    TrustFile(agent / "trust.json").trust(Path(os.path.realpath(project)), fingerprint(project).digest)


# Deciding.


def test_a_project_is_not_trusted_by_default(agent: Path, project: Path) -> None:
    assert decision_for(agent, project) == Decision(
        False,
        [
            "This project is not trusted, so these were ignored: .pi/settings.json, .pi/extensions, .pi/SYSTEM.md. "
            "`tau trust` trusts them as they are now, --approve for one run."
        ],
        undecided=True,
    )
    remember(agent, project)
    assert is_trusted(agent, project)


def test_where_nothing_needs_trust_nothing_is_said(agent: Path, tmp_path: Path) -> None:
    assert decision_for(agent, tmp_path) == Decision(False, [])


@pytest.mark.parametrize("approve", [True, False])
def test_what_is_said_for_this_run_counts_before_everything(agent: Path, project: Path, approve: bool) -> None:
    if not approve:
        remember(agent, project)
    before = sorted(agent.iterdir())
    assert decide(project, agent, approve=approve) == Decision(approve, [])
    assert sorted(agent.iterdir()) == before


@pytest.mark.parametrize(("otherwise", "trusted"), [("ask", False), ("never", False), ("always", True)])
def test_the_user_can_say_what_counts_without_a_decision(
    agent: Path, project: Path, otherwise: ProjectTrust, trusted: bool
) -> None:
    assert decide(project, agent, approve=None, otherwise=otherwise).trusted == trusted


def test_what_was_forgotten_is_trusted_no_more(agent: Path, project: Path) -> None:
    remember(agent, project)
    file = TrustFile(agent / "trust.json")
    assert (file.forget(project), file.forget(project)) == (True, False)
    assert not decision_for(agent, project).trusted


# Bound to content.


def write(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("changed")


CHANGES: dict[str, Callable[[Path], None]] = {
    "settings": lambda pi: write(pi / "settings.json"),
    "extension": lambda pi: write(pi / "extensions" / "a.py"),
    "package": lambda pi: write(pi / "extensions" / "pack" / "__init__.py"),
    "part of a package": lambda pi: write(pi / "extensions" / "pack" / "deep" / "data.txt"),
    "hidden file": lambda pi: write(pi / "extensions" / ".hidden"),
    "new extension": lambda pi: write(pi / "extensions" / "b.py"),
    "extension gone": lambda pi: (pi / "extensions" / "a.py").unlink(),
    "extension with another name": lambda pi: (pi / "extensions" / "a.py").rename(pi / "extensions" / "c.py") and None,
    "system prompt": lambda pi: write(pi / "SYSTEM.md"),
    "appended": lambda pi: write(pi / "APPEND_SYSTEM.md"),
    "mcp": lambda pi: write(pi / "mcp.json"),
}


@pytest.mark.promise("S05", "S06")
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_whatever_changes_ends_the_trust(agent: Path, project: Path, change: Callable[[Path], None]) -> None:
    remember(agent, project)
    change(project / ".pi")
    decision = decision_for(agent, project)
    assert not decision.trusted and "its content has changed since" in decision.warnings[0]


def test_other_files_of_the_project_may_change(agent: Path, project: Path) -> None:
    remember(agent, project)
    for name in ("README.md", ".pi/prompts/p.md", ".pi/skills/s/SKILL.md", ".pi/extensions/__pycache__/a.pyc"):
        write(project / name)
    assert is_trusted(agent, project)


@pytest.mark.parametrize("settings", [{"extensions": ["../tools"]}, {"shellPath": "tools/x.py"}])
def test_files_that_the_settings_would_run_are_bound_too(
    agent: Path, project: Path, settings: dict[str, object]
) -> None:
    write(project / "tools" / "x.py")
    (project / ".pi" / "settings.json").write_text(json.dumps(settings))
    remember(agent, project)
    assert decision_for(agent, project).trusted
    (project / "tools" / "x.py").write_text("something else")
    assert not decision_for(agent, project).trusted


# By settings, the file of a manifest, and what it names: a file elsewhere, and one in a folder that is not compared.
MANIFESTS = {
    "own": ({}, ".pi/extensions/kit", "../../../tools/x.ts"),
    "own in Python": ({}, ".pi/extensions/kit", "../../../tools/x.py"),
    "own in node_modules": ({}, ".pi/extensions/kit", "node_modules/dep/x.ts"),
    "named in settings": ({"extensions": ["../kit"]}, "kit", "../tools/x.ts"),
    "local package": ({"packages": ["../kit"]}, "kit", "../tools/x.ts"),
    "local package, as a glob": ({"packages": ["../kit"]}, "kit", "../tools/*.ts"),
    "package in a local package": ({"packages": ["../pack"]}, "pack/extensions/kit", "../../../tools/x.ts"),
    "npm package": ({"packages": ["npm:kit"]}, ".pi/npm/node_modules/kit", "../dep/x.ts"),
    "git package": ({"packages": ["git:example.org/me/kit"]}, ".pi/git/example.org/me/kit", "node_modules/dep/x.ts"),
}


@pytest.mark.promise("S06")
@pytest.mark.parametrize(("settings", "folder", "named"), MANIFESTS.values(), ids=MANIFESTS)
def test_a_file_that_a_manifest_names_is_bound_wherever_it_is(
    agent: Path, project: Path, settings: dict[str, object], folder: str, named: str
) -> None:
    (project / ".pi" / "settings.json").write_text(json.dumps(settings))
    (project / folder).mkdir(parents=True)
    (project / folder / "package.json").write_text(json.dumps({"pi": {"extensions": [named]}}))
    file = Path(os.path.normpath(project / folder / named.replace("*", "x")))
    write(file)
    remember(agent, project)
    decision = decision_for(agent, project)
    assert decision.trusted
    assert decision.content is not None and os.path.realpath(file) in decision.content
    file.write_text("something else")
    assert not decision_for(agent, project).trusted


def test_what_is_no_plain_file_cannot_be_trusted(project: Path) -> None:
    os.mkfifo(project / ".pi" / "extensions" / "pipe.py")
    with pytest.raises(Untrustable, match="not a regular file"):
        fingerprint(project)


def test_folders_that_lead_back_cannot_be_trusted(project: Path) -> None:
    (project / ".pi" / "extensions" / "round").symlink_to(project / ".pi")
    with pytest.raises(Untrustable, match="contains itself"):
        fingerprint(project)


def test_there_is_a_limit_to_what_can_be_bound(agent: Path, project: Path) -> None:
    remember(agent, project)
    with (project / ".pi" / "extensions" / "huge").open("wb") as file:
        file.truncate(trust.MAX_BYTES + 1)
    decision = decision_for(agent, project)
    assert not decision.trusted and "larger than" in decision.warnings[0]


def test_names_and_contents_cannot_be_shifted_into_each_other(tmp_path: Path) -> None:
    prints = set()
    for at, (name, content) in enumerate([("ab", "c"), ("a", "bc"), ("abc", "")]):
        folder = tmp_path / str(at) / ".pi" / "extensions"
        folder.mkdir(parents=True)
        (folder / name).write_text(content)
        prints.add(fingerprint(tmp_path / str(at)).digest)
    assert len(prints) == 3


# Bound to the real path.


def test_the_same_content_elsewhere_is_another_project(agent: Path, project: Path, tmp_path: Path) -> None:
    remember(agent, project)
    project.rename(tmp_path / "other")
    assert not decision_for(agent, tmp_path / "other").trusted


@pytest.mark.promise("S04")
def test_a_link_in_the_place_of_a_trusted_folder_is_not_trusted(agent: Path, project: Path, tmp_path: Path) -> None:
    remember(agent, project)
    project.rename(tmp_path / "evil")
    project.symlink_to(tmp_path / "evil")
    assert not decision_for(agent, project).trusted


def test_a_link_to_a_trusted_folder_is_that_folder(agent: Path, project: Path, tmp_path: Path) -> None:
    remember(agent, project)
    (tmp_path / "link").symlink_to(project)
    assert decision_for(agent, tmp_path / "link").trusted


def test_folders_below_a_trusted_one_are_not_trusted(agent: Path, project: Path) -> None:
    remember(agent, project)
    write(project / "sub" / ".pi" / "SYSTEM.md")
    assert not decision_for(agent, project / "sub").trusted


@pytest.mark.promise("S03")
def test_a_trust_file_inside_the_project_decides_nothing(project: Path) -> None:
    inside = project / ".pi" / "agent"
    remember(inside, project)
    assert not decision_for(inside, project).trusted


# The file.


def test_a_yes_of_pi_is_not_enough_and_this_is_said(agent: Path, project: Path) -> None:
    (agent / "trust.json").write_text(json.dumps({str(project.parent): True}))
    decision = decision_for(agent, project)
    assert not decision.trusted
    assert f"pi trusts {project.parent} by its path only; tau requires trust in its content." in decision.warnings[0]


def test_a_no_of_pi_counts_also_against_the_usual(agent: Path, project: Path) -> None:
    (agent / "trust.json").write_text(json.dumps({str(project.parent): False}))
    decision = decide(project, agent, approve=None, otherwise="always")
    assert not decision.trusted and f"says that {project.parent} is not trusted" in decision.warnings[0]


def test_the_newer_of_a_no_and_a_yes_counts(agent: Path, project: Path) -> None:
    remember(agent, project)
    content = json.loads((agent / "trust.json").read_text())
    (agent / "trust.json").write_text(json.dumps({**content, str(project): False}))
    assert not decision_for(agent, project).trusted
    remember(agent, project)
    assert decision_for(agent, project).trusted


def test_pi_can_read_what_we_write_and_keeps_what_is_its_own(agent: Path, project: Path) -> None:
    (agent / "trust.json").write_text(json.dumps({"/some/where": True, "/else": None}))
    remember(agent, project)
    remember(agent, project)
    content = json.loads((agent / "trust.json").read_text())
    assert list(content.values()).count(True) == 2 and content["/some/where"] is True and content["/else"] is None
    assert len(content) == 3 and all(value in (True, False, None) for value in content.values())


@pytest.mark.parametrize("broken", [b"{", b"[]", b"\xff", b"true", b'{"a": NaN}'])
def test_a_broken_file_is_reported_trusts_nothing_and_is_not_written(agent: Path, project: Path, broken: bytes) -> None:
    path = agent / "trust.json"
    path.write_bytes(broken)
    decision = decision_for(agent, project)
    assert not decision.trusted and decision.warnings[0].startswith(f"{path}: ")
    with pytest.raises(ValueError):
        remember(agent, project)
    assert path.read_bytes() == broken


def test_the_file_is_private(agent: Path, project: Path) -> None:
    remember(agent, project)
    assert (agent / "trust.json").stat().st_mode & 0o777 == 0o600


# What trust is used for later.


def test_a_decision_has_the_content_that_was_trusted(agent: Path, project: Path) -> None:
    remember(agent, project)
    content = decision_for(agent, project).content
    assert content is not None
    file = project / ".pi" / "extensions" / "a.py"
    assert content[os.path.realpath(file)] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert decide(project, agent, approve=True).content is None


def test_settings_that_change_after_the_decision_are_not_used(agent: Path, project: Path) -> None:
    file = project / ".pi" / "settings.json"
    file.write_text('{"steeringMode": "all"}')
    remember(agent, project)
    content = decision_for(agent, project).content
    assert SettingsFile(file, content).read().steering_mode == "all"
    file.write_text('{"steeringMode": "all", "shellPath": "/tmp/evil"}')
    bound = SettingsFile(file, content)
    assert bound.read() == Settings()
    (problem,) = bound.problems
    assert problem.startswith(f"{file} cannot be read: it changed since the project was trusted.")


def test_a_system_prompt_that_changes_after_the_decision_is_not_used(agent: Path, project: Path) -> None:
    (agent / "SYSTEM.md").write_text("the user's")
    remember(agent, project)
    content = decision_for(agent, project).content
    assert prompt_file("SYSTEM.md", project, agent, True, content) == ("{}", [])
    write(project / ".pi" / "SYSTEM.md")
    path = project / ".pi" / "SYSTEM.md"
    why = f"{path} cannot be read: it changed since the project was trusted"
    assert prompt_file("SYSTEM.md", project, agent, True, content) == ("the user's", [why])
    assert prompt_file("SYSTEM.md", project, agent, True) == ("changed", [])
    (project / ".pi" / "APPEND_SYSTEM.md").write_text("added")
    assert prompt_file("APPEND_SYSTEM.md", project, agent, True, content)[0] is None


def test_a_yes_is_for_the_content_that_was_asked_about(agent: Path, project: Path) -> None:
    asked_about = fingerprint(project)
    assert decide(project, agent, approve=True, asked_about=asked_about).trusted
    write(project / ".pi" / "extensions" / "a.py")
    decision = decide(project, agent, approve=True, asked_about=asked_about)
    assert not decision.trusted
    assert decision.warnings == [
        "This project is not trusted, because its content changed while that was decided. Nothing of it is used."
    ]
    trust.save_decision(project, agent, trusted=True, asked_about=asked_about)
    assert not is_trusted(agent, project)


def test_a_shell_is_read_again_only_if_its_status_changed(tmp_path: Path) -> None:
    shell = tmp_path / "sh"
    shell.write_text("one")
    bound = TrustedFile(str(shell), hashlib.sha256(b"one").hexdigest())
    assert bound.is_unchanged() and bound.is_unchanged()
    shell.write_text("two")
    assert not bound.is_unchanged()
    shell.unlink()
    assert not bound.is_unchanged()


def test_a_project_with_only_themes_can_be_trusted_and_its_themes_may_change(agent: Path, tmp_path: Path) -> None:
    project = tmp_path / "work"
    (project / ".pi" / "themes").mkdir(parents=True)
    (project / ".pi" / "themes" / "mine.json").write_text("{}")
    assert decision_for(agent, project) == Decision(False, [])  # only the terminal interface uses them
    assert fingerprint(project).files == [".pi/themes"]
    remember(agent, project)
    assert is_trusted(agent, project)
    (project / ".pi" / "themes" / "mine.json").write_text("[]")
    assert is_trusted(agent, project)
    (project / ".pi" / "SYSTEM.md").write_text("Do this.")
    assert not is_trusted(agent, project)
