from __future__ import annotations

import pytest

from support.loop_kit import assistant, call, fails, new_draft, ok, says, tell, user, word
from tau.core.agent.draft import MessageBegun, MessageDone, ResponseStarted
from tau.core.agent.loop import RunEnd, agent_run
from tau.core.agent.tool_results import ToolDone, ToolProgress
from tau.records.deltas import Failure, TextEnd
from tau.records.events import (
    AgentEnd,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    Outcome,
    ToolEnd,
    ToolStart,
    ToolUpdate,
    TurnEnd,
)
from tau.records.messages import Text, ToolCall, ToolResult

SKIPPED = Outcome([Text("Skipped due to queued user message.")], {})
ONE, TWO, THREE = call("one"), call("two"), call("three")


def result(called: ToolCall, text: str, *, details: object = None, error: bool = False) -> ToolResult:
    made = ToolResult(called.id, called.name, [Text(text)], is_error=error)
    return made if details is None else ToolResult(called.id, called.name, [Text(text)], details, error)


# The order of events.


def test_a_prompt_is_answered() -> None:
    told = tell(agent_run([user("hi")]), [says("hello")])
    assert told.did == [
        "agent_start",
        "turn_start",
        *("message_start", "message_end"),
        "<model 1>",
        *("message_start", "message_end"),
        "turn_end",
        "agent_end",
    ]
    assert told.end == RunEnd([user("hi"), assistant("hello")], says("hello"))


def test_the_answer_is_published_as_it_comes() -> None:
    draft = new_draft()
    facts = [draft.begin(), draft.open("text"), draft.add(0, "hel"), draft.add(0, "lo"), *draft.finish("stop")]
    told = tell(agent_run([user("hi")]), facts)
    assert told.did[4:] == [
        "<model 1>",
        "message_start",
        *["message_update"] * 4,
        "message_end",
        "turn_end",
        "agent_end",
    ]
    assert told.events[4:9] == [MessageStart(assistant()), *facts[1:5]]
    assert told.all(MessageEnd)[-1] == MessageEnd(assistant("hello"))


def test_a_tool_result_reaches_the_model_in_the_next_turn() -> None:
    told = tell(agent_run([user("list")]), [says(ONE), ToolDone(ONE, ok("a b")), says("done")])
    assert told.did[4:] == [
        "<model 1>",
        *("message_start", "message_end"),
        "tool_execution_start",
        "<run one>",
        "tool_execution_end",
        *("message_start", "message_end"),
        "turn_end",
        "turn_start",
        "<model 3>",
        *("message_start", "message_end"),
        "turn_end",
        "agent_end",
    ]
    assert told.asked == [[user("list")], [user("list"), assistant(ONE), result(ONE, "a b")]]
    assert told.all(TurnEnd) == [TurnEnd(assistant(ONE), [result(ONE, "a b")]), TurnEnd(assistant("done"), [])]
    assert told.all(AgentEnd) == [
        AgentEnd([user("list"), assistant(ONE), result(ONE, "a b"), assistant("done")], will_retry=False)
    ]


def test_the_model_gets_the_history_and_agent_end_only_what_is_new() -> None:
    history = [user("before"), assistant("yes")]
    told = tell(agent_run([user("now")], history), [says("done")])
    assert told.asked == [[*history, user("now")]]
    assert told.all(AgentEnd) == [AgentEnd([user("now"), assistant("done")])]


def test_a_run_that_goes_on_has_no_prompts() -> None:
    told = tell(agent_run([], [user("hi")]), [says("done")])
    assert told.did == [
        *("agent_start", "turn_start", "<model 1>", "message_start", "message_end", "turn_end", "agent_end")
    ]
    assert told.all(AgentEnd) == [AgentEnd([assistant("done")])]


def test_every_prompt_message_is_announced_before_the_model_is_asked() -> None:
    told = tell(agent_run([user("a"), user("b")]), [says("done")])
    assert told.did[2:7] == ["message_start", "message_end", "message_start", "message_end", "<model 2>"]


# Tools.


def test_tools_run_one_after_another() -> None:
    told = tell(agent_run([]), [says(ONE, TWO), ToolDone(ONE, ok("1")), ToolDone(TWO, ok("2")), says("done")])
    assert told.did[5:16] == [
        *("tool_execution_start", "<run one>", "tool_execution_end", "message_start", "message_end"),
        *("tool_execution_start", "<run two>", "tool_execution_end", "message_start", "message_end"),
        "turn_end",
    ]


def test_progress_carries_the_arguments_and_everything_so_far() -> None:
    ls = call("ls", path=".")
    told = tell(
        agent_run([]),
        [says(ls), ToolProgress(ls, ok("a")), ToolProgress(ls, ok("ab")), ToolDone(ls, ok("abc")), says("x")],
    )
    assert told.events[4:8] == [
        ToolStart("call_ls", "ls", {"path": "."}),
        ToolUpdate("call_ls", "ls", {"path": "."}, ok("a")),
        ToolUpdate("call_ls", "ls", {"path": "."}, ok("ab")),
        ToolEnd("call_ls", "ls", ok("abc"), False),
    ]


def test_a_call_that_is_refused_does_not_run_and_the_model_is_told_why() -> None:
    told = tell(agent_run([]), [says(ONE), says("sorry")], refuse={"one": "Tool one not found"})
    assert told.ran == []
    assert told.all(ToolEnd) == [ToolEnd("call_one", "one", Outcome([Text("Tool one not found")], {}), True)]
    assert told.asked[1][-1] == result(ONE, "Tool one not found", details={}, error=True)


def test_a_tool_that_fails_is_a_result_like_any_other() -> None:
    told = tell(agent_run([]), [says(ONE), ToolDone(ONE, Outcome([Text("no")], {}), is_error=True), says("sorry")])
    assert told.all(TurnEnd)[0].tool_results == [result(ONE, "no", details={}, error=True)]
    assert told.did[-1] == "agent_end"


def test_details_travel_with_the_result_and_null_means_none() -> None:
    facts = [says(ONE), ToolDone(ONE, Outcome([], {"n": 1})), says(TWO), ToolDone(TWO, Outcome([], None)), says("x")]
    told = tell(agent_run([]), facts)
    results = [end.tool_results for end in told.all(TurnEnd)]
    assert results == [[ToolResult("call_one", "one", [], {"n": 1})], [ToolResult("call_two", "two", [])], []]


# Side by side.


def test_in_parallel_starts_keep_the_order_of_calls_ends_come_as_they_come() -> None:
    facts = [says(ONE, TWO), ToolDone(TWO, ok("2")), ToolDone(ONE, ok("1")), says("done")]
    told = tell(agent_run([], parallel=True), facts)
    assert told.did[5:16] == [
        *("tool_execution_start", "<run one>", "tool_execution_start", "<run two>"),
        *("tool_execution_end", "tool_execution_end"),
        *("message_start", "message_end", "message_start", "message_end"),
        "turn_end",
    ]
    assert [end.tool_name for end in told.all(ToolEnd)] == ["two", "one"]
    assert told.all(TurnEnd)[0].tool_results == [result(ONE, "1"), result(TWO, "2")]


def test_in_parallel_a_refused_call_ends_at_once() -> None:
    facts = [says(ONE, TWO, THREE), ToolDone(THREE, ok("3")), ToolDone(ONE, ok("1")), says("done")]
    told = tell(agent_run([], parallel=True), facts, refuse={"two": "no"})
    assert [end.tool_name for end in told.all(ToolEnd)] == ["two", "three", "one"]
    assert [found.tool_name for found in told.all(TurnEnd)[0].tool_results] == ["one", "two", "three"]


def test_in_parallel_progress_of_several_tools_may_interleave() -> None:
    facts = [says(ONE, TWO), ToolProgress(TWO, ok("b")), ToolProgress(ONE, ok("a"))]
    told = tell(agent_run([], parallel=True), [*facts, ToolDone(TWO, ok("b")), ToolDone(ONE, ok("a")), says("done")])
    assert [update.tool_name for update in told.all(ToolUpdate)] == ["two", "one"]


@pytest.mark.parametrize("parallel", [False, True])
def test_calls_with_the_same_id_each_get_their_own_result(parallel: bool) -> None:
    first, second = ToolCall("same", "ls", {"n": 1}), ToolCall("same", "ls", {"n": 2})
    ends = [ToolDone(first, ok("1")), ToolDone(second, ok("2"))]
    told = tell(agent_run([], parallel=parallel), [says(first, second), *(ends[::-1] if parallel else ends), says("x")])
    assert told.ran == [("ls", {"n": 1}), ("ls", {"n": 2})]
    assert told.all(TurnEnd)[0].tool_results == [result(first, "1"), result(second, "2")]


def test_equal_calls_are_still_two_calls() -> None:
    first, second = call("ls"), call("ls")
    facts = [says(first, second), ToolDone(second, ok("2")), ToolDone(first, ok("1")), says("x")]
    told = tell(agent_run([], parallel=True), facts)
    assert told.all(TurnEnd)[0].tool_results == [result(first, "1"), result(second, "2")]


# Calls that must not run.


@pytest.mark.parametrize("parallel", [False, True])
def test_calls_of_an_answer_cut_by_its_length_never_run(parallel: bool) -> None:
    told = tell(agent_run([], parallel=parallel), [says(ONE, TWO, stop="length"), says("again")])
    assert told.ran == []
    assert [end.is_error for end in told.all(ToolEnd)] == [True, True]
    assert [found.is_error for found in told.asked[1][1:]] == [True, True]
    assert "cut off" in told.asked[1][1].content[0].text


@pytest.mark.parametrize("parallel", [False, True])
def test_a_call_with_unreadable_arguments_never_runs_and_the_model_sees_the_raw_text(parallel: bool) -> None:
    cut = MessageDone(assistant(ONE, call("ls", path="a")), {1: '{"path": "a'})
    told = tell(agent_run([], parallel=parallel), [cut, ToolDone(ONE, ok("1")), says("again")])
    assert told.ran == [("one", {})]
    text = told.asked[1][-1].content[0].text
    assert text.startswith('Validation failed for tool "ls":\n  - root: ')
    assert text.endswith('\n\nReceived arguments:\n{"path": "a')


@pytest.mark.parametrize("stop", ["error", "aborted"])
def test_calls_of_an_answer_that_failed_never_run(stop: str) -> None:
    told = tell(agent_run([]), [fails("I will", ONE, stop=stop)])  # type: ignore[arg-type]
    assert told.ran == []
    assert told.did[-4:] == ["message_update", "message_end", "turn_end", "agent_end"]
    assert told.all(TurnEnd) == [TurnEnd(fails("I will", ONE, stop=stop).message, [])]  # type: ignore[arg-type]


# Failures.


@pytest.mark.parametrize("stop", ["error", "aborted"])
def test_a_failed_answer_says_so_before_it_ends(stop: str) -> None:
    failed = fails("half", stop=stop)  # type: ignore[arg-type]
    told = tell(agent_run([user("hi")]), [MessageBegun(assistant()), failed])
    message = failed.message
    assert told.events[4:] == [
        MessageStart(assistant()),
        MessageUpdate(Failure(stop, message), message=message, usage=message.usage),  # type: ignore[arg-type]
        MessageEnd(message),
        TurnEnd(message, []),
        AgentEnd([user("hi"), message]),
    ]


def test_a_failure_before_anything_came_still_has_a_beginning() -> None:
    told = tell(agent_run([]), [fails()])
    assert told.did == [
        *("agent_start", "turn_start", "<model 0>"),
        *("message_start", "message_update", "message_end", "turn_end", "agent_end"),
    ]


@pytest.mark.parametrize(
    ("early", "heard", "shown"),
    [(True, [], "stop"), (False, [], "error"), (False, [ResponseStarted()], "stop")],
    ids=["early", "late", "late, but it had begun"],
)
def test_an_answer_is_announced_when_it_is_asked_for_or_when_it_begins(
    early: bool, heard: list[ResponseStarted], shown: str
) -> None:
    told = tell(agent_run([], early=early), [new_draft().begin(), *heard, fails()])
    (start,) = told.all(MessageStart)
    assert start.message.stop_reason == shown


def test_an_answer_that_begins_with_its_first_piece_is_announced_before_it() -> None:
    draft = new_draft()
    facts = [draft.begin(), draft.open("text"), *draft.finish("stop")]
    assert tell(agent_run([], early=False), facts).did == tell(agent_run([]), facts).did


def test_the_blocks_of_a_failed_answer_end_before_it_if_its_api_does_so() -> None:
    draft = new_draft()
    draft.ends_blocks_on.add("aborted")
    facts = [draft.begin(), draft.open("text"), draft.add(0, "half"), draft.fail("aborted", "stopped")]
    told = tell(agent_run([]), facts)
    assert [word(event) for event in told.events[3:-3]] == ["message_update"] * 4
    assert told.events[5].delta == TextEnd(0, "half")  # type: ignore[union-attr]
    assert draft.fail("error", "again").closing == []


@pytest.mark.parametrize("retries", [False, True])
def test_agent_end_says_whether_another_try_follows(retries: bool) -> None:
    told = tell(agent_run([]), [fails()], retries=retries)
    assert ("message_update" in told.did) is not retries
    assert told.all(AgentEnd) == [AgentEnd([fails().message], will_retry=retries)]


def test_a_good_answer_is_not_retried() -> None:
    assert tell(agent_run([]), [says("x")], retries=True).all(AgentEnd) == [AgentEnd([assistant("x")])]


def test_a_failed_answer_leaves_the_queues_alone() -> None:
    told = tell(agent_run([user("hi")]), [fails()], steer=[[], [user("s")]], follow_up=[[user("f")]])
    assert told.end == RunEnd([user("hi"), fails().message], fails())


# Queues.


def test_steering_that_waits_at_the_start_goes_with_the_prompt() -> None:
    told = tell(agent_run([user("hi")]), [says("x")], steer=[[user("also")]])
    assert told.did[2:8] == [
        *("message_start", "message_end", "<queues>", "message_start", "message_end", "<model 2>"),
    ]
    assert told.asked == [[user("hi"), user("also")]]


def test_steering_after_a_tool_skips_the_remaining_calls() -> None:
    facts = [says(ONE, TWO, THREE), ToolDone(ONE, ok("1")), says("ok")]
    told = tell(agent_run([]), facts, steer=[[], [user("stop that")]])
    assert told.did[5:] == [
        *("tool_execution_start", "<run one>", "tool_execution_end", "message_start", "message_end"),
        *("tool_execution_start", "tool_execution_end", "message_start", "message_end"),
        *("tool_execution_start", "tool_execution_end", "message_start", "message_end"),
        "turn_end",
        "turn_start",
        "<queues>",
        *("message_start", "message_end"),
        "<model 5>",
        *("message_start", "message_end", "turn_end", "agent_end"),
    ]
    assert told.all(ToolEnd)[1:] == [
        ToolEnd("call_two", "two", SKIPPED, True),
        ToolEnd("call_three", "three", SKIPPED, True),
    ]
    skipped = [result(each, SKIPPED.content[0].text, details={}, error=True) for each in (TWO, THREE)]
    assert told.asked[1] == [assistant(ONE, TWO, THREE), result(ONE, "1"), *skipped, user("stop that")]


def test_steering_after_the_last_tool_skips_nothing() -> None:
    told = tell(agent_run([]), [says(ONE), ToolDone(ONE, ok("1")), says("ok")], steer=[[], [user("and")]])
    assert told.asked[1] == [assistant(ONE), result(ONE, "1"), user("and")]


def test_a_refused_call_is_a_place_to_steer_too() -> None:
    told = tell(agent_run([]), [says(ONE, TWO), says("ok")], steer=[[], [user("stop")]], refuse={"one": "no"})
    assert told.ran == []
    assert told.asked[1][-1] == user("stop")


def test_in_parallel_steering_waits_for_the_whole_batch() -> None:
    facts = [says(ONE, TWO), ToolDone(ONE, ok("1")), ToolDone(TWO, ok("2")), says("ok")]
    told = tell(agent_run([], parallel=True), facts, steer=[[], [user("stop")]])
    assert told.asked[1] == [assistant(ONE, TWO), result(ONE, "1"), result(TWO, "2"), user("stop")]
    assert told.did[told.did.index("turn_end") :][:5] == [
        *("turn_end", "turn_start", "<queues>", "message_start", "message_end"),
    ]


def test_steering_during_plain_text_starts_another_turn_of_the_same_run() -> None:
    told = tell(agent_run([user("hi")]), [says("a"), says("b")], steer=[[], [user("and")]])
    assert told.did[7:] == [
        *("turn_end", "turn_start", "<queues>", "message_start", "message_end", "<model 3>"),
        *("message_start", "message_end", "turn_end", "agent_end"),
    ]


def test_a_follow_up_is_delivered_when_the_agent_would_stop() -> None:
    facts = [says(ONE), ToolDone(ONE, ok("1")), says("a"), says("b")]
    told = tell(agent_run([]), facts, follow_up=[[user("next")]])
    assert told.asked[2] == [assistant(ONE), result(ONE, "1"), assistant("a"), user("next")]
    assert told.did[-10:] == [
        *("turn_end", "turn_start", "<queues>", "message_start", "message_end", "<model 4>"),
        *("message_start", "message_end", "turn_end", "agent_end"),
    ]


def test_steering_goes_before_a_follow_up() -> None:
    told = tell(agent_run([]), [says("a"), says("b"), says("c")], steer=[[], [user("s")]], follow_up=[[user("f")]])
    assert [messages[-1] for messages in told.asked[1:]] == [user("s"), user("f")]


def test_several_messages_of_a_queue_are_announced_one_by_one() -> None:
    told = tell(agent_run([]), [says("a"), says("b")], follow_up=[[user("x"), user("y")]])
    assert told.asked[1] == [assistant("a"), user("x"), user("y")]
    assert told.all(AgentEnd) == [AgentEnd([assistant("a"), user("x"), user("y"), assistant("b")])]
    assert told.taken == [[user("y")], []]
    queued = told.did.index("<queues>")
    assert told.did[queued : queued + 6] == ["<queues>", "message_start", "message_end"] * 2


def test_a_conversation_that_was_made_smaller_is_what_the_run_goes_on_with() -> None:
    facts = [says(ONE), ToolDone(ONE, ok("1")), says(TWO), ToolDone(TWO, ok("2")), says("done")]
    told = tell(agent_run([user("go")]), facts, fits=[[user("what was said")]])
    assert told.asked[1] == [user("what was said")]
    assert told.asked[2] == [user("what was said"), assistant(TWO), result(TWO, "2")]
    assert len(told.all(AgentEnd)[0].messages) == 6


def test_a_run_that_has_nothing_more_to_ask_is_not_made_smaller() -> None:
    told = tell(agent_run([user("go")]), [says("a"), says("b")], follow_up=[[user("x")]], fits=[[user("s")], []])
    assert told.asked == [[user("go")], [user("s"), user("x")]]


def test_results_carry_the_time_they_came() -> None:
    told = tell(agent_run([]), [says(ONE), ToolDone(ONE, ok("1")), says("x")], now=7)
    assert told.all(TurnEnd)[0].tool_results == [ToolResult("call_one", "one", [Text("1")], timestamp=7)]
