from __future__ import annotations

import json
from typing import Any

import pytest

from support.entry_builder import Talk, answer
from support.loop_kit import assistant, call, user
from tau.core.conversation.stats import SessionCounts, conversation_counts
from tau.core.conversation.tree import Tree
from tau.records.base import UNSET, encode, replace
from tau.records.messages import Assistant, BashExecution, Text, ToolResult, Usage, UsageCost
from tau.records.replies import SessionStats, TokenSums

FIRST = Usage(10, 20, 30, 40, 100, UsageCost(total=0.5))
SECOND = Usage(1, 2, 3, 4, 10, UsageCost(total=0.25))


def test_a_conversation_is_counted_and_summed() -> None:
    first = replace(assistant(call("a"), call("b")), usage=FIRST)
    second = replace(assistant("done"), usage=SECOND)
    results = [ToolResult("1", "a", [Text("x")]), ToolResult("2", "b", [Text("y")])]
    messages = [user("hi"), BashExecution("ls", "", 0), first, *results, second]
    assert conversation_counts(messages).stats("id", "/file") == SessionStats(
        session_file="/file",
        session_id="id",
        user_messages=1,
        assistant_messages=2,
        tool_calls=2,
        tool_results=2,
        total_messages=6,
        tokens=TokenSums(11, 22, 33, 44, 110),
        cost=0.75,
    )


def test_a_session_is_counted_with_every_branch_and_every_summary() -> None:
    talk = Talk()
    talk.user("hi")
    talk.says("one", usage=FIRST, error="529")
    talk.says("two", usage=SECOND)
    talk.compaction("S", "e3", usage={"input": 100, "output": 1, "cost": {"total": 2}})
    tree = talk.tree
    tree.leaf = 0
    talk.branch_summary("B", usage={"input": 1000, "cacheRead": 5, "cost": {"total": 4}})
    tree.add(encode(talk.branch[-1]), "e5", "branch_summary")
    counted = SessionCounts().update(tree).stats("id")
    assert (counted.user_messages, counted.assistant_messages, counted.total_messages) == (1, 2, 3)
    assert (counted.tokens, counted.cost) == (TokenSums(1111, 23, 38, 44, 1216), 6.75)


def test_entries_are_read_once_and_those_that_are_added_count_at_once() -> None:
    talk = Talk()
    talk.user("hi")
    tree = talk.tree
    counts = SessionCounts().update(tree)
    assert counts.update(tree).messages == 1
    talk.says("one", usage=FIRST)
    tree.add(encode(talk.branch[-1]), "e2", "message")
    for _ in range(2):
        counts.update(tree)
        assert (counts.messages, counts.tokens.total, counts.cost) == (2, 100, 0.5)


MESSAGE = {"role": "toolResult", "toolCallId": "1", "toolName": "x", "content": [], "usage": {"input": 7}}


@pytest.mark.parametrize(
    ("entry", "messages", "tokens"),
    [
        ({"type": "usage", "provider": "p", "model": "m", "usage": {"input": 5, "output": 2}}, 0, 7),
        ({"type": "message", "message": MESSAGE}, 1, 7),
        ({"type": "message", "message": {**MESSAGE, "role": "user"}}, 1, 0),
        ({"type": "message", "message": {"role": "assistant", "content": None, "usage": {"input": 3}}}, 1, 3),
        ({"type": "message", "message": {"role": "assistant", "content": 12, "usage": {"input": 3}}}, 1, 3),
        ({"type": "message", "message": {"role": "assistant", "usage": {"input": "many"}}}, 1, 0),
        ({"type": "message", "message": {"role": "somebody"}}, 1, 0),
        ({"type": "message", "message": {}}, 0, 0),
        ({"type": "compaction", "summary": "S", "usage": None}, 0, 0),
        ({"type": "compaction", "summary": "S", "usage": "much"}, 0, 0),
        ({"type": "custom", "message": 5, "usage": {"input": 5}}, 0, 0),
        ({"type": "model_change", "provider": 1}, 0, 0),
    ],
)
def test_entries_of_any_shape_can_be_counted(entry: dict[str, Any], messages: int, tokens: int) -> None:
    tree = Tree()
    tree.add(json.dumps({"id": "a", "parentId": None, **entry}).encode(), "a", str(entry["type"]))
    tree.add(b'{"type":"message","id":"b","parentId":"a","message":{"role":"user"}}', "b", "message")
    counts = SessionCounts().update(tree)
    assert (counts.messages, counts.tokens.total) == (messages + 1, tokens)


def test_an_unknown_cost_is_reported_as_unknown() -> None:
    def spent(total: float, model: str) -> Assistant:
        return replace(assistant("done"), usage=Usage(1, 2, cost=UsageCost(total=total)), model=model)

    free, paid, unused = spent(0, "free"), spent(0.5, "paid"), assistant("done")
    assert conversation_counts([free, paid, unused]).stats("id").cost_unknown is UNSET
    assert conversation_counts([paid, unused]).stats("id", unpriced=lambda *_: True).cost_unknown is UNSET
    unknown = conversation_counts([paid, free]).stats("id", unpriced=lambda provider, model: model == "free")
    assert (unknown.cost, unknown.cost_unknown) == (0.5, True)
    assert encode(unknown).endswith(b'"cost":0.5,"costUnknown":true}')


def test_the_cost_of_a_summary_is_unknown_if_its_model_has_no_price() -> None:
    talk = Talk()
    talk.message(answer("done", provider="p", model="m", usage=FIRST))
    talk.compaction("S", "e1", usage={"input": 5})
    counts = SessionCounts().update(talk.tree)
    assert counts.stats("id", unpriced=lambda *model: model == ("p", "m")).cost_unknown is True
    assert counts.stats("id", unpriced=lambda *model: model != ("p", "m")).cost_unknown is UNSET


def test_an_empty_conversation_has_zeros_and_no_file() -> None:
    counted = conversation_counts([]).stats("id")
    assert counted == SessionStats(UNSET, "id", 0, 0, 0, 0, 0, TokenSums(), 0)
    assert b"sessionFile" not in encode(counted)


def entry(id: str, parent: str | None, **fields: Any) -> dict[str, Any]:
    return {"type": "message", "id": id, "parentId": parent, "timestamp": "2026-01-01T00:00:00Z", **fields}


def spent(cost: float, **more: Any) -> dict[str, Any]:
    return {"input": 7, "output": 1, "cacheRead": 2, "cacheWrite": 3, "cost": {"total": cost}, **more}


MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "hi"},
    {
        "role": "assistant",
        "content": [{"type": "text", "text": "a"}, {"type": "toolCall", "id": "1", "arguments": {"type": "toolCall"}}],
        "provider": "p",
        "model": "m",
        "usage": spent(0.1),
    },
    {"role": "toolResult", "content": [], "usage": spent(0)},
    {"role": "assistant", "content": [], "provider": "p", "model": "free", "usage": spent(0)},
    {"role": "assistant", "content": "text", "provider": "p", "model": "m"},
    {"role": "assistant", "content": [], "provider": "p", "model": "m", "usage": spent(0.2)},
    {"role": "bashExecution", "command": "ls"},
    {"role": "custom", "content": "x"},
]
OTHERS: list[dict[str, Any]] = [
    {"type": "model_change", "provider": "p", "modelId": "other"},
    {"type": "compaction", "summary": "s", "usage": spent(0.3)},
    {"type": "branch_summary", "summary": "s", "usage": spent(0)},
    {"type": "usage", "provider": "q", "model": "n", "usage": spent(0)},
    {"type": "label", "targetId": "0"},
]


@pytest.mark.parametrize(
    "kinds", [MESSAGES[:2], MESSAGES[:3], MESSAGES[3:], [*MESSAGES, *OTHERS], [*OTHERS, *MESSAGES]]
)
def test_many_entries_are_counted_like_each_of_them(kinds: list[dict[str, Any]]) -> None:
    def counted(unusual: dict[str, Any]) -> tuple[SessionStats, list[tuple[str, str]]]:
        tree, asked = Tree(), list[tuple[str, str]]()
        for number, fields in enumerate([*kinds, *kinds]):
            made = {**entry(str(number), None), **({"message": fields} if "role" in fields else fields), **unusual}
            tree.add(encode(made), str(number), made["type"])
        counts = SessionCounts().update(tree)
        stats = counts.stats("id", unpriced=lambda provider, model: bool(asked.append((provider, model))))
        return stats, sorted(asked)

    # A field of an unexpected type makes every line of the block unusual, so each is decoded on its own.
    assert counted({}) == counted({"parentId": 1})
