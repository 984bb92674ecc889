"""Limits of the system that the agent works under."""

from __future__ import annotations

import resource
from pathlib import Path

from support.limits import no_descriptors
from support.rpc_process import Agent


def test_a_command_is_run_whole_or_not_at_all_however_small_files_may_be(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        agent.get("bash", command="true")
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        whole = f"touch half; touch {'x' * 100}"
        for room in range(len(str(agent.cwd)), len(str(agent.cwd)) + len(whole) + 30, 9):
            resource.prlimit(agent.pid, resource.RLIMIT_FSIZE, (room, hard))
            response = agent.ask("bash", command=whole)
            assert not response["success"] and "Cannot run the command: File too large" in response["error"], response
        assert list(agent.cwd.iterdir()) == []
        resource.prlimit(agent.pid, resource.RLIMIT_FSIZE, (hard, hard))
        agent.get("bash", command=whole)
        assert len(list(agent.cwd.iterdir())) == 2


def test_a_command_that_has_no_descriptor_to_load_its_module_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        agent.get("get_state")  # it has started
        with no_descriptors(agent.pid):
            response = agent.ask("list_sessions")
        assert not response["success"] and response["error"] == "Too many open files. Try again later."
        assert agent.get("list_sessions") == {"sessions": []}
    assert "Traceback" not in agent.stderr


def test_a_list_of_sessions_is_refused_when_there_is_no_descriptor_to_read_them(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        agent.prompt("one")
        assert len(agent.get("list_sessions")["sessions"]) == 1  # loads what it needs
        with no_descriptors(agent.pid):
            response = agent.ask("list_sessions")
        assert not response["success"] and response["error"] == "Too many open files. Try again later."
    assert "Traceback" not in agent.stderr
