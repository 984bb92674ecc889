"""The package in examples/ is installed from its folder, and each of its resources is used."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from support.node_program import find_node
from support.package_place import Place
from support.rpc_process import Agent, of
from tau.screen.themes import parse_theme

PACKAGE = Path(__file__).parents[2] / "examples" / "package"
RESOURCES = {
    "extensions": "extensions/unreleased.ts",
    "skills": "skills/release-notes/SKILL.md",
    "prompts": "prompts/announce.md",
    "themes": "themes/harbour.json",
}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A home in which the package is installed."""
    place = Place(tmp_path / "place")
    agent = tmp_path / "agent"
    agent.mkdir()
    host = {"node": find_node()[0] or False, "loadTimeoutMs": 60_000}
    (agent / "settings.json").write_text(json.dumps({"extensionHost": host}))
    place.env["PI_CODING_AGENT_DIR"] = str(agent)
    said = place.tau("install", str(PACKAGE)).stdout
    assert "It brings 1 extension, 1 skill, 1 prompt template, 1 theme." in said
    return place


def test_the_package_has_a_resource_of_each_kind(place: Place) -> None:
    rows = json.loads(place.tau("config", "--json").stdout)
    assert {row["kind"]: row["name"] for row in rows} == RESOURCES
    theme, problems = parse_theme(json.loads((PACKAGE / RESOURCES["themes"]).read_text()))
    assert problems == [] and theme is not None and theme.name == "harbour"
    place.tau("remove", str(PACKAGE))
    assert place.rows() == [] and PACKAGE.is_dir()


def test_the_resources_of_the_package_are_used(place: Place, tmp_path: Path) -> None:
    program, problem = find_node()
    if program is None or shutil.which("git") is None:
        pytest.skip(problem or "git is not on this machine: the extension was NOT tried")
    work = tmp_path / "work"
    work.mkdir()
    place.git("init", "-q", cwd=work)
    for subject in ("first", "second", "third"):
        place.git("commit", "-q", "--allow-empty", "-m", subject, cwd=work)
        if subject == "first":
            place.git("tag", "v1", cwd=work)
    calls = {"blocks": [{"tool": "unreleased_commits", "arguments": {}}]}
    with Agent(tmp_path, calls, {"text": "done"}) as agent:
        commands = {one["name"] for one in agent.get("get_commands")["commands"]}
        assert commands == {"unreleased", "announce", "skill:release-notes"}
        assert agent.ask("prompt", message="/unreleased")["success"]
        shown = agent.until(lambda one: one.get("method") == "notify")[-1]
        assert shown["message"] == "2 commits since v1"
        ended = of("tool_execution_end", agent.prompt("What is new?"))[-1]
        assert ended["result"]["content"] == [{"type": "text", "text": "- third\n- second"}]
        assert of("extension_error", agent.records) == []
