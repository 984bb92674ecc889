"""The entry for the ACP registry fits the registry's rules, and names this package and its version."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENTRY = ROOT / "docs" / "acp-registry"


def test_the_entry_fits_the_rules_of_the_registry() -> None:
    entry = json.loads((ENTRY / "agent.json").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    allowed = {"id", "name", "version", "description", "repository", "website", "authors", "license", "distribution"}
    assert {"id", "name", "version", "description", "distribution"} <= entry.keys() <= allowed
    assert re.fullmatch(r"[a-z][a-z0-9-]*", entry["id"])
    assert (entry["version"], entry["description"]) == (project["version"], entry["description"].strip())
    assert entry["distribution"] == {"uvx": {"package": project["name"], "args": ["acp"]}}
    assert entry["license"] == project["license"]


def test_the_icon_is_small_and_has_no_color_of_its_own() -> None:
    icon = (ENTRY / "icon.svg").read_text()
    assert 'width="16"' in icon and 'height="16"' in icon and 'viewBox="0 0 16 16"' in icon
    assert set(re.findall(r'fill="([^"]*)"', icon)) == {"currentColor"}
    assert "for release" in (ENTRY / "README.md").read_text()
