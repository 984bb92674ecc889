"""Cancellation over ACP: in every phase of a prompt, within a second, and without effect on the next prompt."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from support.acp_peer import Failure, Peer, memory_peer
from support.acp_phases import AFTERWARDS, PHASES, question, running, tool
from support.rpc_process import Json


def run(case: Callable[[Peer, str], Awaitable[None]], folder: Path, *answers: Json, **how: Any) -> None:
    async def main() -> None:
        async with memory_peer(folder, *answers, **how) as peer:
            await peer.initialize()
            await case(peer, await peer.new(folder / "work"))

    asyncio.run(main())


@pytest.mark.promise("K05")
@pytest.mark.parametrize("phase", PHASES)
def test_a_cancel_is_answered_soon_in_every_phase_and_the_next_prompt_works(phase: str, tmp_path: Path) -> None:
    answer, reached, name, args = PHASES[phase]

    async def case(peer: Peer, session: str) -> None:
        request = peer.prompt_request(session)
        await peer.send(request)
        await reached(peer, name)
        began = time.monotonic()
        await peer.notify("session/cancel", sessionId=session)
        assert (await peer.response(request))["stopReason"] == "cancelled"
        assert time.monotonic() - began < 20  # a second on a machine that has nothing else to do
        assert all(one["status"] in ("completed", "failed") for one in peer.calls().values())
        assert not (tmp_path / "work" / "no").exists()
        if phase == "in a permission question":
            asked = await question(peer, "")
            await peer.until(lambda one: one.get("params") == {"requestId": asked["id"]})
        if phase == "before the first byte":
            return
        assert await peer.prompt(session) == "end_turn"
        assert peer.text().endswith("afterwards")

    run(case, tmp_path, answer, AFTERWARDS, args=args, settings={"retry": {"baseDelayMs": 60_000}})


@pytest.mark.promise("K12")
def test_a_cancel_in_the_same_write_as_its_prompt_cancels_it(tmp_path: Path) -> None:
    async def case(peer: Peer, session: str) -> None:
        for _ in range(20):
            request = peer.prompt_request(session)
            cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}
            await peer.send(request, cancel)
            assert (await peer.response(request))["stopReason"] == "cancelled"
        assert await peer.prompt(session) == "end_turn"

    run(case, tmp_path)


@pytest.mark.promise("K12")
def test_a_cancel_without_a_run_does_nothing_and_not_to_the_next_prompt(tmp_path: Path) -> None:
    async def case(peer: Peer, session: str) -> None:
        await peer.notify("session/cancel", sessionId=session)
        await peer.notify("session/cancel", sessionId="unknown")
        request = peer.prompt_request(session)
        cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}
        await peer.send(cancel, request)
        assert (await peer.response(request))["stopReason"] == "end_turn"

    run(case, tmp_path)


@pytest.mark.promise("K12")
def test_cancel_request_ends_one_prompt_and_leaves_the_others(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()

    async def case(peer: Peer, session: str) -> None:
        first, second, third = (peer.prompt_request(session) for _ in range(3))
        await peer.send(first, second, third)
        await running(peer, "")
        await peer.notify("$/cancel_request", requestId=second["id"])
        assert (await peer.response(second))["stopReason"] == "cancelled"
        await peer.notify("$/cancel_request", requestId=first["id"])
        assert (await peer.response(first))["stopReason"] == "cancelled"
        assert (await peer.response(third))["stopReason"] == "end_turn"
        await peer.notify("$/cancel_request", requestId=12345)
        await peer.notify("$/cancel_request", requestId=third["id"])
        assert await peer.prompt(session) == "end_turn"

    run(case, tmp_path, tool("bash", command="sleep 60"), AFTERWARDS)


def test_cancel_request_ends_another_request_with_its_own_error(tmp_path: Path) -> None:
    async def case(peer: Peer, session: str) -> None:
        request = peer.request("session/new", cwd=str(tmp_path / "work"), mcpServers=[])
        cancel = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": request["id"]}}
        await peer.send(request, cancel)
        with pytest.raises(Failure) as failed:
            await peer.response(request)
        assert failed.value.code == -32800
        assert await peer.prompt(session) == "end_turn"

    run(case, tmp_path)
