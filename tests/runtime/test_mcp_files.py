"""Files of MCP that tools may neither read nor write: tokens, the user's configuration, cached lists, .mcp.json."""

from __future__ import annotations

from pathlib import Path

import pytest

from tau.errors import ToolError
from tau.runtime.machine.files import LocalFiles
from tau.runtime.machine.protected_files import ProtectedFiles
from tau.store.trust import MCP_NOT_COVERED, TrustFile, decide, fingerprint


@pytest.fixture
def files(tmp_path: Path) -> LocalFiles:
    agent, work = tmp_path / "agent", tmp_path / "work"
    for folder in (agent / "cache" / "mcp", work):
        folder.mkdir(parents=True)
    for path in (
        agent / "tau-mcp-auth.json",
        agent / "mcp.json",
        agent / "cache" / "mcp" / "x.json",
        work / ".mcp.json",
    ):
        path.write_text("{}")
    return LocalFiles(str(agent / "auth.json"), ProtectedFiles(agent, work))


@pytest.mark.promise("M21")
@pytest.mark.parametrize("name", ["tau-mcp-auth.json", "mcp.json"])
def test_files_with_tokens_cannot_be_read(files: LocalFiles, tmp_path: Path, name: str) -> None:
    with pytest.raises(ToolError, match="credentials"):
        files.open(str(tmp_path / "agent" / name))


@pytest.mark.promise("M21")
@pytest.mark.parametrize(
    "name", ["agent/tau-mcp-auth.json", "agent/mcp.json", "agent/cache/mcp/x.json", "work/.mcp.json", "work/.MCP.json"]
)
def test_files_that_decide_what_runs_cannot_be_written(files: LocalFiles, tmp_path: Path, name: str) -> None:
    with pytest.raises(ToolError, match="own configuration"):
        files.replace(str(tmp_path / name), b"{}")


def test_a_decision_of_an_older_version_does_not_cover_mcp_json(tmp_path: Path) -> None:
    agent, work = tmp_path / "agent", tmp_path / "work"
    (work / ".pi").mkdir(parents=True)
    (work / ".pi" / "settings.json").write_text("{}")
    (work / ".mcp.json").write_text("{}")
    TrustFile(agent / "trust.json").trust(work, fingerprint(work, mcp=False).digest)
    decision = decide(work, agent, approve=None)
    assert decision.trusted and decision.warnings == [MCP_NOT_COVERED]
    assert decision.content is not None and str(work / ".mcp.json") not in decision.content
    TrustFile(agent / "trust.json").trust(work, fingerprint(work).digest)
    decision = decide(work, agent, approve=None)
    assert decision.trusted and decision.warnings == []
    assert decision.content is not None and str(work / ".mcp.json") in decision.content
