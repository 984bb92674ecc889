"""Packages in a session: their extensions, skills and prompt templates, and those of an untrusted project."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.package_place import Place
from support.rpc_process import Agent

EXTENSION = """
def setup(pi):
    @pi.command("wave", description="waves")
    async def wave(text, ctx):
        pass
"""
SKILL = "---\nname: tides\ndescription: about tides\n---\nx\n"


def make(folder: Path, **manifest: Any) -> None:
    files = {"extensions/wave.py": EXTENSION, "skills/tides/SKILL.md": SKILL, "prompts/brief.md": "In short: $1"}
    for name, text in {**files, "package.json": json.dumps({"version": "1.0.0", **manifest})}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def rows(agent: Agent) -> dict[str, dict[str, Any]]:
    return {row["name"]: row["sourceInfo"] for row in agent.get("get_commands")["commands"]}


def test_extensions_skills_and_prompts_of_a_package_are_loaded(tmp_path: Path) -> None:
    kit = tmp_path / "agent" / "npm" / "node_modules" / "kit"
    make(kit)
    with Agent(tmp_path, settings={"packages": ["npm:kit", "npm:none"]}) as agent:
        found = rows(agent)
    common = {"source": "npm:kit", "scope": "user", "origin": "package", "baseDir": str(kit)}
    assert found == {
        "wave": {"path": str(kit / "extensions" / "wave.py"), **common},
        "brief": {"path": str(kit / "prompts" / "brief.md"), **common},
        "skill:tides": {"path": str(kit / "skills" / "tides" / "SKILL.md"), **common},
    }
    assert (tmp_path / "stderr").read_text().count('npm:none is not installed; run "tau install npm:none"') == 1


def test_own_folders_come_before_packages_and_a_collision_is_told(tmp_path: Path) -> None:
    make(tmp_path / "agent" / "npm" / "node_modules" / "kit")
    mine = tmp_path / "agent" / "skills" / "tides" / "SKILL.md"
    mine.parent.mkdir(parents=True)
    mine.write_text(SKILL)
    with Agent(tmp_path, settings={"packages": ["npm:kit"]}) as agent:
        assert rows(agent)["skill:tides"]["path"] == str(mine)
    assert "has the same name" in (tmp_path / "stderr").read_text()


@pytest.mark.promise("U07")
def test_packages_of_an_untrusted_project_are_neither_loaded_nor_mentioned_one_by_one(tmp_path: Path) -> None:
    make(tmp_path / "work" / ".pi" / "npm" / "node_modules" / "kit")
    settings = tmp_path / "work" / ".pi" / "settings.json"
    settings.write_text(json.dumps({"packages": ["npm:kit", "git:example.org/me/none", "../elsewhere"]}))
    with Agent(tmp_path) as agent:
        assert rows(agent) == {}
    told = (tmp_path / "stderr").read_text().splitlines()
    assert len(told) == 1 and "these were ignored: .pi/settings.json, .pi/npm." in told[0]


def test_packages_of_a_trusted_project_are_loaded(tmp_path: Path) -> None:
    make(tmp_path / "work" / ".pi" / "npm" / "node_modules" / "kit")
    settings = tmp_path / "work" / ".pi" / "settings.json"
    settings.write_text(json.dumps({"packages": [{"source": "npm:kit", "extensions": []}]}))
    with Agent(tmp_path, args=["--approve"]) as agent:
        assert {name: row["scope"] for name, row in rows(agent).items()} == {
            "brief": "project",
            "skill:tides": "project",
        }


@pytest.mark.promise("U09")
def test_a_missing_package_is_installed_at_the_start_only_if_the_settings_say_so(tmp_path: Path) -> None:
    place = Place(tmp_path / "place")
    place.repository("me/kit", {"extensions/wave.py": EXTENSION})
    settings = {"packages": ["git:example.org/me/kit"]}
    with Agent(tmp_path / "a", settings=settings, env=place.env) as agent:
        assert rows(agent) == {}
    with Agent(tmp_path / "b", settings={**settings, "installMissingPackages": True}, env=place.env) as agent:
        assert list(rows(agent)) == ["wave"]
    offline = {**place.env, "PI_OFFLINE": "1"}
    with Agent(tmp_path / "c", settings={**settings, "installMissingPackages": True}, env=offline) as agent:
        assert rows(agent) == {}


def test_a_package_for_one_run_is_kept_for_the_next(tmp_path: Path) -> None:
    place = Place(tmp_path / "place")
    place.repository("me/kit", {"extensions/wave.py": EXTENSION, "prompts/brief.md": "In short"})
    words = ["-e", "git:example.org/me/kit"]
    with Agent(tmp_path, args=words, env=place.env) as agent:
        assert {name: row["scope"] for name, row in rows(agent).items()} == {"wave": "temporary", "brief": "temporary"}
    assert not (tmp_path / "agent" / "settings.json").exists()
    with Agent(tmp_path, args=[*words, "--offline"], env=place.env) as agent:
        assert list(rows(agent)) == ["wave", "brief"]


def test_no_extensions_leaves_the_skills_of_packages(tmp_path: Path) -> None:
    make(tmp_path / "agent" / "npm" / "node_modules" / "kit")
    with Agent(
        tmp_path, settings={"packages": ["npm:kit"]}, args=["--no-extensions", "--no-prompt-templates"]
    ) as agent:
        assert list(rows(agent)) == ["skill:tides"]
