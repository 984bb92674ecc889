"""A disk that fails under the real program, and one that has room again when it ends."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from support.rpc_process import Agent, Pipe, calls, texts
from tau.store.sessions import open_session


@pytest.mark.promise("H07")
def test_what_could_not_be_written_is_written_when_the_program_ends(tmp_path: Path) -> None:
    session = tmp_path / "session.jsonl"
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with (
        Pipe(tmp_path / "gate") as gate,
        Agent(tmp_path, calls(f"read x <{gate.path}"), {"text": "done"}, args=["--session", str(session)]) as agent,
    ):
        agent.get("prompt", message="go")
        agent.until("tool_execution_start")
        resource.prlimit(agent.pid, resource.RLIMIT_FSIZE, (session.stat().st_size, hard))
        gate.say()
        assert texts(agent.settled(), "assistant") == ["done"]
        before = len(open_session(session).tree)
        resource.prlimit(agent.pid, resource.RLIMIT_FSIZE, (hard, hard))
        agent.close()  # before it would have tried again by itself
        assert agent.exit_code() == 0
    assert len(open_session(session).tree) == before + 2
