from __future__ import annotations

import os
from pathlib import Path

import pytest

from tau.errors import ToolError
from tau.host.files import LocalFiles
from tau.host.guarded import OWN, Guarded
from tau.store.trust import NEEDING


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("agent", "work/.pi", "sessions"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "agent" / "settings.json").write_text("{}")
    return tmp_path


def files(place: Path) -> LocalFiles:
    return LocalFiles(guarded=Guarded(place / "agent", place / "work", place / "sessions"))


def refused(place: Path, name: str) -> None:
    with pytest.raises(ToolError, match="belongs to the agent's own"):
        files(place).replace(str(place / name), b"evil")


@pytest.mark.promise("H03")
@pytest.mark.parametrize("name", OWN)
def test_the_agents_own_files_are_not_written(place: Path, name: str) -> None:
    refused(place, f"agent/{name}" if "." in name else f"agent/{name}/deep/x.py")
    assert [path.name for path in (place / "agent").iterdir()] == ["settings.json"]
    assert (place / "agent" / "settings.json").read_text() == "{}"


@pytest.mark.parametrize("name", NEEDING)
@pytest.mark.parametrize("folder", ["work", "work/sub", "elsewhere"])
def test_what_needs_trust_is_not_written_in_any_project(place: Path, folder: str, name: str) -> None:
    refused(place, f"{folder}/.pi/{name}")
    refused(place, f"{folder}/.PI/{name.upper()}")


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
