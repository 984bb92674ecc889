"""Many requests and many sessions in one process."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from long.fuzz_acp import fuzz
from support.acp_peer import memory_peer


@pytest.mark.process
@pytest.mark.promise("K02")
def test_mutated_requests_get_one_valid_response_each_and_end_nothing(tmp_path: Path) -> None:
    figures = asyncio.run(fuzz(1_000, 7, tmp_path))
    assert figures.answered > 500
    assert figures.late_memory < 1.3 * figures.early_memory


@pytest.mark.promise("K09")
def test_sessions_side_by_side_get_only_their_own_updates(tmp_path: Path) -> None:
    async def main() -> None:
        async with memory_peer(tmp_path, {"blocks": [{"text": ["a", "b", "c"]}], "delayMs": 1}) as peer:
            await peer.initialize()
            ids = await asyncio.gather(*(peer.new(tmp_path / "work") for _ in range(6)))
            assert len(set(ids)) == 6
            for _ in range(2):
                assert set(await asyncio.gather(*(peer.prompt(id) for id in ids))) == {"end_turn"}
            for id in ids:
                chunks = peer.updates("agent_message_chunk", id)
                assert "".join(one["content"]["text"] for one in chunks) == "abcabc"
            await asyncio.gather(*(peer.call("session/close", sessionId=id) for id in ids[:3]))
            assert set(await asyncio.gather(*(peer.prompt(id) for id in ids[3:]))) == {"end_turn"}

    asyncio.run(main())
