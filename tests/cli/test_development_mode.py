"""Every front end starts in Python's development mode and in asyncio's debug mode, and says nothing more than usual."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from support.acp_peer import process_peer
from support.cli_process import PI, run, scripted
from support.host_process import HostProcess
from support.interface import Interface
from support.rpc_process import Agent


@pytest.fixture(params=["PYTHONDEVMODE", "PYTHONASYNCIODEBUG"], autouse=True)
def _mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(request.param, "1")  # programs that are started inherit it


def test_print_mode(tmp_path: Path) -> None:
    assert run(tmp_path, "--no-session", "-p", "go") == (0, "ok\n", "")


def test_rpc_mode(tmp_path: Path) -> None:
    program = [*PI, "--mode", "rpc", *scripted(tmp_path)]
    with Agent(tmp_path, offline=False, program=program) as agent:
        assert agent.prompt("go")[-1]["type"] == "agent_settled"


def test_a_terminal(tmp_path: Path) -> None:
    with Interface(tmp_path, program=PI) as screen:
        screen.start().send("go")
        assert "ok" in screen.settle()


def test_an_editor(tmp_path: Path) -> None:
    async def story() -> str:
        async with process_peer(tmp_path) as (peer, _):
            await peer.initialize()
            return await peer.prompt(await peer.new(tmp_path / "work"))

    assert asyncio.run(story()) == "end_turn"


def test_a_host(tmp_path: Path) -> None:
    with HostProcess(tmp_path) as host:
        with host.client() as client:
            assert client.get("list_sessions") == {"sessions": []}
        assert host.stop() == 143
