"""Trust in a project whose packages a command changes: it stays if the command is killed, and covers nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from long.package_kills import KILLED_BY_US, KILLER
from support.package_place import SKILL, WITHIN, Place, write
from tau.store.trust import MCP_NOT_COVERED, TrustFile, fingerprint

KIT = "git:example.org/me/kit"


@pytest.mark.parametrize(
    ("source", "step"),
    [
        ("./own", "tau.cli.packages_change.add_entry"),
        (KIT, "tau.store.packages.installer.change_lock"),
        (KIT, "tau.store.packages.git.exchange"),
        (KIT, "tau.cli.packages_change.add_entry"),
    ],
)
def test_a_project_stays_trusted_if_an_installation_is_killed(tmp_path: Path, source: str, step: str) -> None:
    place = Place(tmp_path)
    write(place.work, {"own/prompts/p.md": "p"})
    place.repository("me/kit", {"skills/x/SKILL.md": SKILL.format("x")})
    words = [sys.executable, "-c", KILLER, step, "1", "after", "install", "-l", source]
    done = subprocess.run(words, cwd=place.work, env=place.env, capture_output=True, text=True, timeout=WITHIN)
    assert done.returncode == KILLED_BY_US, done
    assert place.tau("list").stderr == ""
    place.tau("install", "-l", source)
    assert [row["missing"] or row["changed"] for row in place.rows()] == [False]
    left = [path for path in place.work.rglob(".tau-staging-*") if ".git" not in path.parts[:-1]]
    assert left == [] and len((place.agent / "trust.json").read_text().splitlines()) == 3


def test_an_installation_does_not_extend_an_older_trust_to_mcp_servers(tmp_path: Path) -> None:
    place = Place(tmp_path)
    write(place.work, {".pi/settings.json": "{}", ".mcp.json": "{}", "own/prompts/p.md": "p"})
    work = place.work.resolve()
    TrustFile(place.agent / "trust.json").trust(work, fingerprint(work, mcp=False).digest)
    assert place.tau("install", "-l", "./own", code=1).stderr == f"Error: {MCP_NOT_COVERED}\n"
    assert (work / ".pi" / "settings.json").read_text() == "{}"
