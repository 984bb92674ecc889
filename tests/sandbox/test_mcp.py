"""With a sandbox, servers of a project run inside it or not at all; those of the user run outside, and tau says so."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from support import mcp_server
from support.mcp_session import results
from support.sandbox_escapes import PYTHON, missing

LEVEL = "workspace"


def entry(work: Path, **options: Any) -> dict[str, Any]:
    """A server whose program is inside of the working folder, where the sandbox can read it."""
    program = work / "mcp_server.py"
    program.write_text(Path(mcp_server.__file__).read_text())
    return {"command": PYTHON, "args": ["-S", str(program), json.dumps(options)]}


@pytest.mark.promise("M20")
@pytest.mark.skipif(bool(missing(LEVEL)), reason=missing(LEVEL) or "")
def test_servers_of_a_project_run_inside_and_those_of_the_user_outside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    outside = tmp_path / "outside"
    outside.write_text("")
    given = entry(work, tools=["count", "env"])
    content = {"project": given, "remote": {"url": "http://127.0.0.1:9/mcp"}}
    (work / ".mcp.json").write_text(json.dumps({"mcpServers": content}))
    calls = [
        ("mcp__project__count", {"file": str(outside)}),
        ("mcp__own__count", {"file": str(outside)}),
        ("mcp__project__env", {}),
    ]
    options: dict[str, Any] = {
        "sandbox": LEVEL,
        "trust": True,
        "env": {"PATH": "/usr/bin:/bin", "SOME_TOKEN": "x" * 20},
    }
    with caplog.at_level(logging.WARNING):
        run = asyncio.run(results(tmp_path, {"own": given}, *calls, **options))
    project, own, environment = run.called
    assert project.is_error or "counted" not in project.text
    assert own.text == "counted" and outside.read_text() == "x"
    assert "SOME_TOKEN" not in environment.text
    assert ("remote", "failed") in run.states and "no network" in " ".join(run.errors)
    assert "outside of the sandbox: own" in caplog.text
