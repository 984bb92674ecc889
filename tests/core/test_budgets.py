from __future__ import annotations

import pytest

from support.loop_kit import call, ok, says, tell, user
from tau.core.agent.budgets import (
    NO_STREAK,
    Spent,
    budget_exceeded,
    budget_problem,
    exceeded_before_turn,
    exceeded_while_streaming,
    limit_text,
    stuck,
    unknown_cost_error,
)
from tau.core.agent.loop import agent_run
from tau.core.agent.tool_results import ToolDone, error_outcome, invalid_call
from tau.records.base import UNSET, replace
from tau.records.budgets import Budget
from tau.records.events import BudgetExceeded, Limit
from tau.records.messages import Usage, UsageCost
from tau.records.models import Model, Price

SPENT = Spent(turns=3, tokens=900, cost=0.25)
PRICED = Model("m", "M", "openai-completions", "acme", "https://acme.example", cost=Price(1, 2))
UNPRICED = replace(PRICED, cost=Price(0, 0))


@pytest.mark.parametrize(
    ("budget", "over"),
    [
        (Budget(), None),
        (Budget(max_turns=4, max_tokens=901, max_cost=0.26, time_limit=11), None),
        (Budget(max_turns=3), BudgetExceeded("turns", 3, 3)),
        (Budget(max_tokens=900), BudgetExceeded("tokens", 900, 900)),
        (Budget(max_tokens=800), BudgetExceeded("tokens", 900, 800)),
        (Budget(max_cost=0.2), BudgetExceeded("cost", 0.25, 0.2)),
        (Budget(time_limit=10), BudgetExceeded("time", 10, 10)),
        (Budget(max_turns=1, max_tokens=1), BudgetExceeded("turns", 3, 1)),
    ],
)
def test_a_turn_does_not_begin_when_a_limit_is_reached(budget: Budget, over: BudgetExceeded | None) -> None:
    assert exceeded_before_turn(budget, SPENT, 10) == over


def test_an_answer_is_cut_when_it_goes_beyond_the_tokens() -> None:
    budget = Budget(max_tokens=1000)
    assert exceeded_while_streaming(budget, SPENT, Usage(input=60, output=40), 0) is None
    assert exceeded_while_streaming(budget, SPENT, Usage(input=60, output=41), 0) == BudgetExceeded(
        "tokens", 1001, 1000
    )
    assert exceeded_while_streaming(Budget(max_turns=1), SPENT, Usage(output=10**6), 0) is None


def test_tokens_are_estimated_where_the_provider_counts_only_at_the_end() -> None:
    assert exceeded_while_streaming(Budget(max_tokens=1000), SPENT, Usage(input=60), 160) is None
    assert exceeded_while_streaming(Budget(max_tokens=1000), SPENT, Usage(input=60), 164) == BudgetExceeded(
        "tokens", 1001, 1000
    )


def test_what_answers_took_is_summed() -> None:
    spent = SPENT.add_usage(Usage(10, 5, 3, 2, 20, UsageCost(total=0.5)), unpriced=False)
    assert spent == Spent(3, 920, 0.75)
    assert spent.add_usage(Usage(1, 1), unpriced=True) == Spent(3, 922, 0.75, cost_unknown=True)


def test_a_limit_on_the_cost_needs_a_price() -> None:
    told = unknown_cost_error(Budget(max_cost=1), UNPRICED)
    assert told is not None and told.startswith("The price of acme/m is unknown")
    assert unknown_cost_error(Budget(max_cost=1), PRICED) is None
    assert unknown_cost_error(Budget(max_cost=1, allow_unknown_cost=True), UNPRICED) is None
    assert unknown_cost_error(Budget(max_turns=1), UNPRICED) is None


def test_a_cost_that_becomes_unknown_on_the_way_stops_the_work_unless_that_is_allowed() -> None:
    spent = Spent(1, 10, 0.1, cost_unknown=True)
    assert exceeded_before_turn(Budget(max_cost=1), spent, 0) == BudgetExceeded("cost", 0.1, 1, True)
    assert exceeded_before_turn(Budget(max_cost=1, allow_unknown_cost=True), spent, 0) is None


@pytest.mark.parametrize(
    ("budget", "problem"),
    [
        (Budget(max_turns=0), "maxTurns: must be more than 0"),
        (Budget(max_tokens=-1), "maxTokens: must be more than 0"),
        (Budget(max_cost=float("nan")), "maxCost: must be more than 0"),
        (Budget(time_limit=float("inf")), "timeLimit: must be more than 0"),
        (Budget(1, 1, 0.01, 0.1), None),
    ],
)
def test_a_limit_is_a_number_that_leaves_something(budget: Budget, problem: str | None) -> None:
    assert budget_problem(budget) == problem


@pytest.mark.parametrize(
    ("limit", "allowed", "sentence"),
    [
        ("turns", 3, "Stopped: the limit of 3 turns was reached."),
        ("tokens", 5000, "Stopped: the limit of 5000 tokens was reached."),
        ("cost", 0.5, "Stopped: the limit of $0.5 was reached."),
        ("time", 2, "Stopped: the time limit of 2 s was reached."),
    ],
)
def test_a_limit_that_was_reached_is_a_sentence(limit: Limit, allowed: float, sentence: str) -> None:
    assert limit_text(budget_exceeded(limit, SPENT, 1, allowed)) == sentence
    assert budget_exceeded(limit, SPENT, 1, allowed).cost_unknown is UNSET


def test_a_run_that_may_not_go_on_ends_with_what_it_has() -> None:
    ls = call("ls")
    did = tell(agent_run([user("go")]), [says(ls), ToolDone(ls, ok("a"))], turns=1)
    assert did.did[-3:] == ["message_end", "turn_end", "agent_end"]
    assert did.end is not None and [type(message).__name__ for message in did.end.messages] == [
        "User",
        "Assistant",
        "ToolResult",
    ]


def test_an_agent_that_is_done_is_not_asked_whether_it_may_go_on() -> None:
    assert tell(agent_run([user("go")]), [says("done")], turns=0).did[-2:] == ["turn_end", "agent_end"]


def failed(name: str = "bash", why: str = "no", **arguments: object) -> ToolDone:
    return ToolDone(replace(call(name), arguments=arguments), error_outcome(why), is_error=True)


def invalid(name: str, why: str, **arguments: object) -> ToolDone:
    return ToolDone(replace(call(name), arguments=arguments), invalid_call(why), is_error=True)


FINE = ToolDone(call("bash"), ok("done"))


@pytest.mark.parametrize(
    "rounds",
    [
        [[invalid("no_tool", "Tool no_tool not found")]] * 8,
        [[invalid(f"tool_{at}", f"Tool tool_{at} not found")] for at in range(8)],  # a new name each time
        [[invalid("read", f"path: missing ({at})", file=at)] for at in range(8)],
        [[failed("bash", "exit 3", command="false")]] * 8,
        [[failed("edit", "no match", path="a"), failed("read", "no file", path="b")]] * 8,
        [[FINE], [failed(path="other")], *[[failed(path="a")]] * 8],  # what was before does not matter
    ],
)
def test_eight_answers_whose_calls_fail_in_the_same_way_are_the_limit(rounds: list[list[ToolDone]]) -> None:
    streak = NO_STREAK
    found = [stuck(streak := streak.after(done), 8) for done in rounds]
    assert found == [None] * (len(rounds) - 1) + [BudgetExceeded("stuck", 8, 8)]
    assert limit_text(found[-1] or BudgetExceeded("stuck", 0, 0)) == (
        "Stopped: the tool calls of 8 answers in a row all failed in the same way."
    )
    assert stuck(streak, 0) is None


@pytest.mark.parametrize(
    "between",
    [
        [FINE],
        [FINE, failed(path="a")],  # one call of the answer is made
        [failed(path="b")],  # other arguments
        [failed("read", path="a")],  # another tool
        [failed(why="yes", path="a")],  # another error
        [invalid("bash", "no", path="a")],
    ],
)
def test_another_outcome_starts_the_count_anew(between: list[ToolDone]) -> None:
    streak = NO_STREAK
    for done in [*[[failed(path="a")]] * 7, between, *[[failed(path="a")]] * 7]:
        streak = streak.after(done)
        assert stuck(streak, 8) is None
    assert stuck(streak.after([failed(path="a")]), 8) == BudgetExceeded("stuck", 8, 8)
