from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tau.errors import ToolError
from tau.runtime.app.config import ProjectConfig
from tau.runtime.machine.files import LocalFiles
from tau.runtime.machine.protected_files import OWN, ProtectedFiles
from tau.store.trust import NAMES_NEEDING_TRUST, save_decision


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("agent", "work/.pi", "sessions"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "agent" / "settings.json").write_text("{}")
    return tmp_path


def files(place: Path) -> LocalFiles:
    return LocalFiles(guarded=ProtectedFiles(place / "agent", place / "work", place / "sessions"))


def refused(place: Path, name: str) -> None:
    with pytest.raises(ToolError, match="belongs to the agent's own"):
        files(place).replace(str(place / name), b"evil")


@pytest.mark.promise("H03")
@pytest.mark.parametrize("name", OWN)
def test_the_agents_own_files_are_not_written(place: Path, name: str) -> None:
    refused(place, f"agent/{name}" if "." in name else f"agent/{name}/deep/x.py")
    assert [path.name for path in (place / "agent").iterdir()] == ["settings.json"]
    assert (place / "agent" / "settings.json").read_text() == "{}"


@pytest.mark.parametrize("name", NAMES_NEEDING_TRUST)
@pytest.mark.parametrize("folder", ["work", "work/sub", "elsewhere"])
def test_what_needs_trust_is_not_written_in_any_project(place: Path, folder: str, name: str) -> None:
    refused(place, f"{folder}/.pi/{name}")
    refused(place, f"{folder}/.PI/{name.upper()}")


@pytest.mark.promise("U11")
@pytest.mark.parametrize("folder", ["agent", "work/.pi"])
@pytest.mark.parametrize(
    "name", ["npm/node_modules/kit/index.ts", "npm/package-lock.json", "git/host/kit/x.py", "packages.lock.json"]
)
def test_packages_and_their_lock_files_are_not_written(place: Path, folder: str, name: str) -> None:
    refused(place, f"{folder}/{name}")


def test_sessions_are_not_written_wherever_they_are(place: Path) -> None:
    refused(place, "sessions/a.jsonl")
    files(place).replace(str(place / "work" / "data.jsonl"), b"fine")


def test_the_usual_folder_is_the_agents_even_if_it_uses_another(place: Path) -> None:
    refused(place, "home/.pi/agent/settings.json")


@pytest.mark.parametrize(
    "name", ["work/a.py", "work/.pi/prompts/p.md", "work/.pi/skills/s/SKILL.md", "agent/skills/s.md"]
)
def test_everything_else_is_written(place: Path, name: str) -> None:
    files(place).replace(str(place / name), b"fine")
    assert (place / name).read_bytes() == b"fine"


def test_links_do_not_help(place: Path) -> None:
    (place / "work" / "link").symlink_to(place / "agent")
    refused(place, "work/link/settings.json")
    refused(place, "work/link/trust.json")
    (place / "work" / "plain.json").symlink_to(place / "agent" / "trust.json")
    refused(place, "work/plain.json")
    assert not (place / "agent" / "trust.json").exists()


def test_a_folder_that_pi_is_a_link_to_is_guarded_too(place: Path) -> None:
    (place / "work" / ".pi").rmdir()
    (place / "work" / "config").mkdir()
    (place / "work" / ".pi").symlink_to("config")
    refused(place, "work/config/settings.json")


def test_a_second_name_of_a_file_does_not_help(place: Path) -> None:
    os.link(place / "agent" / "settings.json", place / "work" / "innocent.json")
    refused(place, "work/innocent.json")


def test_without_the_guard_all_is_allowed(place: Path) -> None:
    LocalFiles().replace(str(place / "agent" / "settings.json"), b"allowed")
    assert (place / "agent" / "settings.json").read_bytes() == b"allowed"


# Extensions that lie elsewhere.


def settings(folder: Path, **content: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.json").write_text(json.dumps(content))


@pytest.fixture
def elsewhere(place: Path) -> Path:
    """A file, a package and a folder of extensions outside of the agent's folder, with modules that are links."""
    for name in ("mine/one.py", "mine/pack/__init__.py", "mine/pack/rules.py", "mine/many/two.py", "shared/part.py"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("def setup(pi): pass\n")
    (place / "mine" / "pack" / "part.py").symlink_to(place / "shared" / "part.py")
    settings(place / "agent", extensions=[f"{place}/mine/one.py", f"{place}/mine/pack", f"{place}/mine/many"])
    return place


def of_basis(place: Path, given: Sequence[str] = ()) -> LocalFiles:
    basis = ProjectConfig(place / "agent", place / "work", None, given)
    return LocalFiles(guarded=ProtectedFiles(place / "agent", place / "work", None, basis.executables))


def is_refused(files: LocalFiles, path: Path) -> bool:
    before = path.read_bytes() if path.exists() else None
    try:
        files.replace(str(path), b"evil")
    except ToolError as error:
        assert "belongs to the agent's own" in str(error)
        assert (path.read_bytes() if path.exists() else None) == before
        return True
    return False


@pytest.mark.parametrize(
    "name",
    [
        *("mine/one.py", "mine/pack/__init__.py", "mine/pack/rules.py", "mine/pack/new.py", "mine/pack/data/x.json"),
        *("mine/many/two.py", "mine/many/new.py", "shared/part.py", "mine/pack/part.py"),
    ],
)
def test_extensions_that_settings_name_are_not_written_wherever_they_are(elsewhere: Path, name: str) -> None:
    assert is_refused(of_basis(elsewhere), elsewhere / name)


def test_an_extension_that_settings_name_and_that_is_missing_cannot_be_made(place: Path) -> None:
    settings(place / "agent", extensions=[f"{place}/mine/later.py"], shellPath=f"{place}/mine/shell")
    assert is_refused(of_basis(place), place / "mine" / "later.py")
    assert is_refused(of_basis(place), place / "mine" / "shell")


def test_files_beside_extensions_are_written(elsewhere: Path) -> None:
    assert not is_refused(of_basis(elsewhere), elsewhere / "mine" / "notes.md")


@pytest.mark.parametrize("name", ["mine/pack/rules.py", "agent/extensions/mine.py", "work/.pi/extensions/its.py"])
def test_a_second_name_of_a_module_does_not_help(elsewhere: Path, name: str) -> None:
    (elsewhere / name).parent.mkdir(parents=True, exist_ok=True)
    (elsewhere / name).touch()
    (elsewhere / "work" / "innocent.py").hardlink_to(elsewhere / name)
    assert is_refused(of_basis(elsewhere), elsewhere / "work" / "innocent.py")


def test_another_file_with_two_names_is_written(elsewhere: Path) -> None:
    (elsewhere / "work" / "a").touch()
    (elsewhere / "work" / "b").hardlink_to(elsewhere / "work" / "a")
    assert not is_refused(of_basis(elsewhere), elsewhere / "work" / "b")


@pytest.mark.parametrize("given", ["./ext.py", "tools/pack", "tools"])
def test_extensions_of_the_command_line_are_not_written(place: Path, given: str) -> None:
    work = place / "work"
    (work / "tools" / "pack").mkdir(parents=True)
    for name in ("ext.py", "tools/pack/__init__.py"):
        (work / name).touch()
    files = of_basis(place, [given])
    assert is_refused(files, work / "ext.py") == (given == "./ext.py")
    assert is_refused(files, work / "tools" / "pack" / "new.py") == (given != "./ext.py")


@pytest.mark.parametrize("target", ["tools/gate.py", "tools/shell", "linked/x.py", "config/its.py"])
def test_what_a_project_would_run_is_not_written_even_before_it_is_trusted(place: Path, target: str) -> None:
    work = place / "work"
    for name in ("tools/gate.py", "tools/shell", "linked/x.py", "config/its.py"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).touch()
    settings(work / ".pi", extensions=["../tools/gate.py"], shellPath="tools/shell")
    (work / ".pi" / "extensions").mkdir()
    (work / ".pi" / "extensions" / "x.py").symlink_to(work / "linked" / "x.py")
    (work / ".pi" / "mcp.json").symlink_to(work / "config" / "its.py")
    assert is_refused(of_basis(place), work / target)


def test_a_project_that_is_not_trusted_cannot_keep_tools_from_files_outside_of_it(place: Path) -> None:
    (place / "other.py").touch()
    settings(place / "work" / ".pi", extensions=["../../other.py"])
    assert not is_refused(of_basis(place), place / "other.py")


@pytest.mark.parametrize("trusted", [True, False])
def test_the_file_that_a_manifest_names_elsewhere_is_guarded(place: Path, trusted: bool) -> None:
    kit = place / "work" / ".pi" / "extensions" / "kit"
    kit.mkdir(parents=True)
    (kit / "package.json").write_text('{"pi": {"extensions": ["../../../tools/x.ts"]}}')
    (place / "work" / "tools").mkdir()
    (place / "work" / "tools" / "x.ts").write_text("export default () => {};\n")
    if trusted:
        save_decision(place / "work", place / "agent", trusted=True)
    assert is_refused(of_basis(place), place / "work" / "tools" / "x.ts")
