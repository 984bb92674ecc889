"""Tricks of a project that is not trusted: none of its servers is used, and the user's servers stay as they are."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tau.mcp.config import ServerConfig
from tau.runtime.app.config import ProjectConfig
from tau.runtime.app.mcp_plan import with_settings
from tau.runtime.mcp.loading import McpSources, load_servers
from tau.store.trust import TrustFile, fingerprint

EVIL: dict[str, Any] = {"command": "./evil", "args": ["${HOME}"], "env": {"A": "!touch evil"}, "eager": True}


def write(path: Path, servers: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"mcpServers": servers}))


def linked(work: Path) -> None:
    write(work.parent / "elsewhere.json", {"evil": EVIL})
    (work / ".mcp.json").symlink_to(work.parent / "elsewhere.json")


def linked_folder(work: Path) -> None:
    write(work.parent / "elsewhere" / "mcp.json", {"evil": EVIL})
    (work / ".pi").symlink_to(work.parent / "elsewhere")


def sparse(work: Path) -> None:
    with (work / ".mcp.json").open("wb") as file:
        file.truncate(1 << 30)


def own_trust_file(work: Path) -> None:
    write(work / ".mcp.json", {"evil": EVIL})
    for name in ("trust.json", ".pi/trust.json"):
        TrustFile(work / name).trust(work, fingerprint(work).digest)


TRICKS: dict[str, Callable[[Path], object]] = {
    "a file": lambda work: write(work / ".mcp.json", {"evil": EVIL}),
    "a file in .pi": lambda work: write(work / ".pi" / "mcp.json", {"evil": EVIL}),
    "settings": lambda work: write(work / ".pi" / "settings.json", {"evil": EVIL}),
    "another case": lambda work: write(work / ".MCP.json", {"evil": EVIL}),
    "a link": linked,
    "a linked folder": linked_folder,
    "a link in a circle": lambda work: (work / ".mcp.json").symlink_to(".mcp.json"),
    "the name of a server of the user": lambda work: write(work / ".mcp.json", {"my-own": EVIL}),
    "nearly that name": lambda work: write(work / ".mcp.json", {"my_own": EVIL}),
    "its visibility": lambda work: write(
        work / ".mcp.json", {"my-own": {"exposure": "direct"}, "off": {"enabled": True}}
    ),
    "an address": lambda work: write(work / ".mcp.json", {"evil": {"url": "http://127.0.0.1:9/${HOME}"}}),
    "headers of a command": lambda work: write(
        work / ".mcp.json", {"evil": {"url": "http://127.0.0.1:9/", "headers": {"A": "!touch evil"}}}
    ),
    "a folder": lambda work: (work / ".mcp.json").mkdir(),
    "a pipe": lambda work: os.mkfifo(work / ".mcp.json"),
    "a gigabyte": sparse,
    "no JSON": lambda work: (work / ".mcp.json").write_text("{"),
    "permission for itself": lambda work: (work / ".mcp.json").write_text(
        json.dumps({"mcpServers": {"evil": EVIL}, "allowProjectServers": ["evil"]})
    ),
    "a parent folder": lambda work: write(work.parent / ".mcp.json", {"evil": EVIL}),
    "a trust file": own_trust_file,
    "a hard link": lambda work: (
        write(work.parent / "elsewhere.json", {"evil": EVIL}),
        os.link(work.parent / "elsewhere.json", work / ".mcp.json"),
    ),
}


def configured(agent: Path, work: Path, approve: bool | None = None) -> dict[str, ServerConfig]:
    config = ProjectConfig(agent, work, approve)
    sources = with_settings(McpSources(agent, work, trusted=False), config)
    return load_servers(sources, {"HOME": str(work.parent)}).configs


@pytest.mark.promise("M10")
@pytest.mark.parametrize("trick", TRICKS)
def test_nothing_of_an_untrusted_project_is_used(tmp_path: Path, trick: str) -> None:
    agent, work = tmp_path / "agent", tmp_path / "work"
    work.mkdir()
    own = {"my-own": {"command": "own", "exposure": "deferred"}, "off": {"command": "off", "enabled": False}}
    write(agent / "mcp.json", own)
    TRICKS[trick](work)
    found = configured(agent, work)
    assert [(one.name, one.command, one.enabled, one.exposure) for one in found.values()] == [
        ("my-own", "own", True, "deferred"),
        ("off", "off", False, "auto"),
    ]
    assert not (work / "evil").exists()


def test_a_file_that_is_replaced_after_the_decision_is_not_used(tmp_path: Path) -> None:
    agent, work = tmp_path / "agent", tmp_path / "work"
    write(work / ".mcp.json", {"good": {"command": "good"}})
    TrustFile(agent / "trust.json").trust(work, fingerprint(work).digest)
    config = ProjectConfig(agent, work, None)
    assert list(configured(agent, work)) == ["good"]
    write(work / ".mcp.json", {"evil": EVIL})
    loaded = load_servers(with_settings(McpSources(agent, work, trusted=False), config), {})
    assert loaded.configs == {} and "changed since" in loaded.problems[0]


def test_a_trusted_project_can_turn_a_server_of_the_user_off(tmp_path: Path) -> None:
    agent, work = tmp_path / "agent", tmp_path / "work"
    write(agent / "mcp.json", {"my-own": {"command": "own"}})
    write(work / ".pi" / "mcp.json", {"my-own": {"enabled": False}, "its": {"command": "its"}})
    found = configured(agent, work, approve=True)
    assert [(one.name, one.enabled, one.source.scope) for one in found.values()] == [
        ("its", True, "project"),
        ("my-own", False, "user"),
    ]
