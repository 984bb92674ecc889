from __future__ import annotations

from kit import assistant, call, user
from tau.core.stats import stats
from tau.records.base import UNSET, encode, replace
from tau.records.messages import Assistant, BashExecution, Text, ToolResult, Usage, UsageCost
from tau.records.replies import SessionStats, TokenSums


def test_a_conversation_is_counted_and_summed() -> None:
    first = replace(assistant(call("a"), call("b")), usage=Usage(10, 20, 30, 40, 100, UsageCost(total=0.5)))
    second = replace(assistant("done"), usage=Usage(1, 2, 3, 4, 10, UsageCost(total=0.25)))
    results = [ToolResult("1", "a", [Text("x")]), ToolResult("2", "b", [Text("y")])]
    messages = [user("hi"), BashExecution("ls", "", 0), first, *results, second]
    assert stats(messages, "id", "/file") == SessionStats(
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


def test_a_cost_that_nobody_knows_is_said_to_be_unknown() -> None:
    def spent(total: float) -> Assistant:
        return replace(assistant("done"), usage=Usage(1, 2, cost=UsageCost(total=total)))

    free, paid, unused = spent(0), spent(0.5), assistant("done")
    assert stats([free, paid, unused], "id").cost_unknown is UNSET
    assert stats([paid, unused], "id", unpriced=lambda answer: True).cost_unknown is UNSET
    unknown = stats([paid, free], "id", unpriced=lambda answer: answer is free)
    assert (unknown.cost, unknown.cost_unknown) == (0.5, True)
    assert encode(unknown).endswith(b'"cost":0.5,"costUnknown":true}')


def test_an_empty_conversation_has_zeros_and_no_file() -> None:
    counted = stats([], "id")
    assert counted == SessionStats(UNSET, "id", 0, 0, 0, 0, 0, TokenSums(), 0)
    assert b"sessionFile" not in encode(counted)
