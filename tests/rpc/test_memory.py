"""What a long life may keep; `make soak` lives longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from gate.r23_soak import measure
from support.rpc_process import Agent

MIB = 1 << 20


@pytest.mark.promise("Z01")
def test_tools_that_failed_keep_nothing_when_their_prompt_is_done(tmp_path: Path) -> None:
    wrong = {"blocks": [{"tool": "edit", "arguments": {"path": "file", "oldText": "x" * 400_000, "newText": "y"}}]}
    with Agent(tmp_path, *[wrong, {"text": "ok"}] * 50) as agent:
        (agent.cwd / "file").write_text("hello")
        memory = []
        for _ in range(50):
            agent.prompt("go")
            agent.get("new_session")
            agent.forget()
            memory.append(agent.memory)
        assert memory[-1] - memory[9] < 24 * MIB  # forty of them held more than twice as much, when they held something


@pytest.mark.promise("Z01", "Z02")
def test_prompts_and_sessions_leave_nothing_behind() -> None:
    figures = measure(0.1, 3)
    assert all(figure.holds for figure in figures), figures
