"""A run that grows too long is compacted before it asks again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.rpc_agent import Agent
from support.rpc_process import Json

FULL = {"blocks": [{"tool": "bash", "arguments": {"command": "echo hi"}, "id": "call_1"}], "usage": {"input": 190000}}
WORDS = "word " * 2000


def answers() -> list[Json]:
    return [{"text": WORDS}, FULL, {"text": "SUMMARY"}, {"text": "done"}]


def played(folder: Path, dialect: str, **compaction: Any) -> tuple[list[Json], list[Json]]:
    """The events of the run that grows too long, and what the conversation is then."""
    settings = {"compaction": {"keepRecentTokens": 300, **compaction}}
    with Agent(folder, *answers(), settings=settings, args=["--dialect", dialect]) as agent:
        agent.send("prompt", message=WORDS)
        agent.until("agent_end")
        agent.send("prompt", message=WORDS)
        events = agent.until("agent_end")
        return events, agent.get("get_messages")["messages"]


def types(events: list[Json]) -> list[str]:
    return [event["type"] for event in events]


def test_the_next_question_of_a_run_is_asked_of_a_smaller_conversation(tmp_path: Path) -> None:
    events, messages = played(tmp_path, "1.5")
    at = types(events).index("compaction_start")
    assert types(events)[at - 1 : at + 3] == ["turn_end", "compaction_start", "compaction_end", "turn_start"]
    ended = events[at + 1]
    assert (ended["reason"], ended["willRetry"]) == ("threshold", False)
    assert ended["result"]["usage"]["output"] == 5
    assert 0 < ended["result"]["estimatedTokensAfter"] < ended["result"]["tokensBefore"]
    assert [message["role"] for message in messages] == [
        *("system", "compactionSummary"),
        *("user", "assistant", "toolResult", "assistant"),
    ]
    assert messages[-1]["content"] == [{"type": "text", "text": "done"}]


def test_so_it_is_in_the_default(tmp_path: Path) -> None:
    events, messages = played(tmp_path, "default")
    at = types(events).index("auto_compaction_start")
    assert types(events)[at - 1 : at + 3] == ["turn_end", "auto_compaction_start", "auto_compaction_end", "turn_start"]
    assert messages[0]["summary"] == "SUMMARY"


@pytest.mark.parametrize(
    ("dialect", "compaction"), [("2026-03", {}), ("0.73", {}), ("default", {"betweenTurns": False})]
)
def test_where_it_is_not_wanted_a_run_is_compacted_at_its_end(tmp_path: Path, dialect: str, compaction: Json) -> None:
    events, _ = played(tmp_path, dialect, **compaction)
    assert [kind for kind in types(events) if "compaction" in kind] == []
