"""What a session has taken: sums that never shrink, whatever becomes of the conversation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.rpc_agent import Agent
from support.rpc_process import Json

LONG = "so many words " * 200
SETTINGS: Json = {"compaction": {"keepRecentTokens": 1, "enabled": False}, "retry": {"baseDelayMs": 1}}


def used(input: int, **more: object) -> Json:
    return {"text": LONG, "usage": {"input": input, "output": 1, "cacheRead": 2, "cacheWrite": 3}, **more}


def stats(agent: Agent) -> tuple[int, int, int, int]:
    """Tokens of the input, then messages: of the user, of models, in all."""
    told = agent.get("get_session_stats")
    tokens = told["tokens"]
    assert tokens["total"] == sum(tokens[part] for part in ("input", "output", "cacheRead", "cacheWrite"))
    return tokens["input"], told["userMessages"], told["assistantMessages"], told["totalMessages"]


def test_the_sums_of_a_session_never_shrink(tmp_path: Path) -> None:
    failed = {**used(30), "error": {"message": "529 overloaded", "after": 1}}
    answers = [used(1000), used(2000), failed, used(3000), used(400), used(50), used(7), used(1)]
    with Agent(tmp_path, *answers, settings=SETTINGS) as agent:
        agent.prompt("one")
        agent.prompt("two")
        first = agent.get("get_fork_messages")["messages"][0]["entryId"]
        agent.prompt("three")
        assert stats(agent) == (6030, 3, 4, 7)
        taken = agent.get("compact")["usage"]["input"]
        assert taken == 450  # a turn was split, so that two summaries were asked for
        assert stats(agent) == (6480, 3, 4, 7)
        agent.get("navigate", entryId=first, summarize=True)
        assert stats(agent) == (6487, 3, 4, 7)
        agent.get("navigate", entryId=first)
        assert stats(agent) == (6487, 3, 4, 7)
        assert agent.get("get_state")["messageCount"] == 0
        agent.prompt("four")
        before = agent.get("get_session_stats")
        assert stats(agent) == (6488, 4, 5, 9)
        file = agent.get("get_state")["sessionFile"]
        agent.get("clone")  # the branch that is current, in a file of its own
        assert stats(agent) == (1, 1, 1, 2)
        agent.get("new_session")
        assert stats(agent) == (0, 0, 0, 0)
        agent.get("switch_session", sessionPath=file)
        assert agent.get("get_session_stats") == before
    with Agent(tmp_path, args=["--session", file], settings=SETTINGS) as agent:
        assert agent.get("get_session_stats") == before
    summaries = [json.loads(line) for line in Path(file).read_text().splitlines()]
    kinds = {one["type"]: one["usage"]["input"] for one in summaries if "usage" in one}
    assert kinds == {"compaction": 450, "branch_summary": 7}


@pytest.mark.parametrize("dialect", ["0.73", "2026-03", "2026-02", "2026-01"])
def test_older_dialects_count_the_conversation_as_pi_did(tmp_path: Path, dialect: str) -> None:
    answers = [used(1000), used(2000), used(50)]
    with Agent(tmp_path, *answers, settings=SETTINGS, args=["--dialect", dialect]) as agent:
        for text in ("one", "two"):
            assert agent.ask("prompt", message=text)["success"]
            agent.until("agent_end")
            while agent.get("get_state")["isStreaming"]:
                pass
        assert stats(agent)[0] == 3000
        agent.get("compact")
        assert stats(agent)[0] < 3000
        assert stats(agent)[3] == agent.get("get_state")["messageCount"] == len(agent.get("get_messages")["messages"])


def test_a_file_of_pi_is_counted_as_pi_counts_it(tmp_path: Path) -> None:
    time = "2026-03-15T10:00:00.000Z"
    cost: Json = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0.25}
    usage: Json = {"input": 10, "output": 1, "cacheRead": 2, "cacheWrite": 3, "totalTokens": 16, "cost": cost}
    answer: Json = {"role": "assistant", "api": "a", "provider": "p", "model": "m", "usage": usage, "timestamp": 1}
    call = {"type": "toolCall", "id": "1", "name": "bash", "arguments": {}}
    result = {"role": "toolResult", "toolCallId": "1", "toolName": "bash", "content": [], "isError": False}
    entries: list[Json] = [
        {"type": "message", "message": {"role": "user", "content": "hi", "timestamp": 1}},
        {"type": "message", "message": {**answer, "content": [call], "stopReason": "toolUse"}},
        {"type": "message", "message": {**result, "usage": usage, "timestamp": 2}},
        {"type": "usage", "kind": "cache-warm", "provider": "p", "model": "m", "usage": usage},
        {"type": "compaction", "summary": "S", "firstKeptEntryId": "e1", "tokensBefore": 1, "usage": usage},
        {"type": "branch_summary", "fromId": "e1", "summary": "B", "usage": usage},
        {"type": "custom_message", "customType": "x", "content": "said by an extension", "display": True},
    ]
    lines: list[Json] = [{"type": "session", "version": 3, "id": "of-pi", "timestamp": time, "cwd": ""}]
    for at, entry in enumerate(entries):
        lines.append({**entry, "id": f"e{at}", "parentId": f"e{at - 1}" if at else None, "timestamp": time})
    path = tmp_path / "of_pi.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with Agent(tmp_path, args=["--session", str(path)]) as agent:
        told = agent.get("get_session_stats")
        assert told["tokens"] == {"input": 50, "output": 5, "cacheRead": 10, "cacheWrite": 15, "total": 80}
        assert (told["cost"], told["totalMessages"], told["toolCalls"], told["toolResults"]) == (1.25, 3, 1, 1)
        assert "costUnknown" not in told
