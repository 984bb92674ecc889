"""Faults of the ACP front end that a reader found."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from acp.test_questions import run, tool
from support.acp_peer import Failure, Peer
from tau.acp.open_calls import OpenCalls, ToolInfo
from tau.acp.replay import Replay
from tau.acp.tool_views import fenced
from tau.acp.updates import ToolCall
from tau.records.entries import MessageEntry
from tau.records.messages import Assistant, Usage
from tau.records.messages import ToolCall as Call
from tau.runtime.app.handle import SessionHandle


def test_a_fence_around_millions_of_backticks_is_found_at_once() -> None:
    text = "`" * 3_000_000
    assert fenced(text).startswith("`" * 3_000_001 + "\n")
    assert fenced("a ` b `` c") == "```\na ` b `` c\n```"


def test_a_replay_does_not_say_that_a_running_call_has_failed() -> None:
    calls = OpenCalls("/w", ToolInfo)
    calls.open("one", "bash")
    calls.start("one", "bash", {"command": "sleep 9"})
    calls.open("two", "bash")
    content: list[Any] = [Call(id, "bash", {"command": "sleep 9"}) for id in ("one", "two", "three")]
    message = Assistant(content, "api", "provider", "model", Usage(), "toolUse", 1)
    replay = Replay(calls, "/w", compaction=False)
    updates = [*replay.read(MessageEntry(id="e", parent_id=None, timestamp="t", message=message)), *replay.end()]
    shown = {update.tool_call_id: update.status for update in updates if isinstance(update, ToolCall)}
    assert shown == {"one": "in_progress", "two": "pending", "three": "failed"}


def test_a_question_that_cannot_be_asked_is_denied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(handle: SessionHandle, tool: str, arguments: Any) -> Any:
        raise OSError("the disk is gone")

    monkeypatch.setattr(SessionHandle, "preview_change", fail)

    async def case(peer: Peer, session: str) -> None:
        async with asyncio.timeout(30):
            assert await peer.prompt(session) == "end_turn"

    run(case, tmp_path, tool("write", path="a.txt", content="x"), {"text": "ok"}, args=["--permissions", "ask"])
    assert not (tmp_path / "work" / "a.txt").exists()


def test_keys_are_read_again_while_sessions_are_opened_and_closed(tmp_path: Path) -> None:
    async def case(peer: Peer, session: str) -> None:
        for _ in range(3):
            others = [await peer.new(tmp_path / "work") for _ in range(3)]
            asked = [await peer.start("authenticate", methodId="key") for _ in range(3)]
            for other in others:
                await peer.call("session/close", sessionId=other)
            for request in asked:
                try:
                    await peer.response(request)
                except Failure as error:
                    assert "Internal error" not in str(error)

    run(case, tmp_path, {"text": "ok"})
