from __future__ import annotations

import pytest

from support.entry_builder import Talk, answer, call, words
from tau.core.conversation.tokens import (
    context_tokens,
    context_usage,
    estimate,
    last_counted,
    since_compaction,
    usage_tokens,
)
from tau.records.messages import (
    BashExecution,
    BranchSummary,
    CompactionSummary,
    Custom,
    Image,
    Other,
    StoredMessage,
    Text,
    Thinking,
    ToolResult,
    Usage,
    User,
)

IMAGE = Image("AAAA", "image/png")


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        (User("", 0), 0),
        (User("a", 0), 1),
        (User("abcd", 0), 1),
        (User("abcde", 0), 2),
        (User([Text("abcd"), Text("efgh")], 0), 2),
        (User([Text("abcd"), IMAGE], 0), 1201),
        (answer("abcd"), 1),
        (answer(Thinking("abcd"), "efgh"), 2),
        (answer(call("1", "bash", command="ls")), 5),  # bash and {"command":"ls"}
        (answer(call("1", "bash", text="ä")), 4),  # characters, not bytes
        (answer("abcd", stop="aborted"), 0),
        (answer("abcd", error="529"), 0),
        (ToolResult("1", "bash", [Text("abcd")]), 1),
        (ToolResult("1", "read", [IMAGE, IMAGE]), 2400),
        (Custom("x", "abcd", True), 1),
        (Custom("x", [IMAGE], True), 1200),
        (BashExecution("abcd", "efgh"), 2),
        (BashExecution("abcd", "efgh", exclude_from_context=True), 0),
        (BranchSummary("abcd", "e1"), 1),
        (CompactionSummary("abcd", 0), 1),
        (Other("system"), 0),
    ],
)
def test_four_characters_are_about_a_token(message: StoredMessage, tokens: int) -> None:
    assert estimate(message) == tokens


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (Usage(), 0),
        (Usage(input=1, output=2, cache_read=4, cache_write=8), 15),
        (Usage(input=1, output=2, cache_read=4, cache_write=8, total_tokens=100), 100),
    ],
)
def test_the_providers_own_sum_goes_before_ours(usage: Usage, tokens: int) -> None:
    assert usage_tokens(usage) == tokens


def test_what_was_said_since_the_last_count_is_estimated() -> None:
    talk = Talk()
    talk.user("hi")
    talk.says("hello", used=1000)
    talk.user(words(50))
    talk.bash("ls", "a b")
    talk.custom(words(5))
    talk.branch_summary(words(3))
    talk.level()
    talk.other()
    assert context_tokens(talk.branch) == 1000 + 50 + 2 + 5 + 3


def test_an_answer_that_failed_or_was_not_counted_is_passed_over() -> None:
    talk = Talk()
    talk.user("hi")
    talk.says("hello", used=1000)
    talk.user(words(7))
    talk.says(words(90), used=5000, stop="aborted")
    talk.says(used=5000, error="prompt is too long")
    talk.says(words(2), used=0)
    assert last_counted(reversed(talk.branch)) == 1009


def test_without_any_count_everything_is_estimated() -> None:
    talk = Talk()
    talk.user(words(10))
    talk.says(words(20))
    assert last_counted(reversed(talk.branch)) is None
    assert context_tokens(talk.branch) == 30
    assert context_tokens([]) == 0


def test_after_a_compaction_what_was_counted_before_it_is_stale() -> None:
    talk = Talk()
    talk.user(words(1000))
    kept = talk.user(words(10))
    talk.says(words(20), used=100_000)
    talk.compaction(words(5), kept.id)
    assert context_tokens(talk.branch) == 35
    talk.user(words(4))
    assert context_tokens(talk.branch) == 39
    talk.says("ok", used=500)
    assert context_tokens(talk.branch) == 500


def test_only_what_the_last_compaction_kept_still_stands() -> None:
    talk = Talk()
    talk.user("a")
    b = talk.user("b")
    first = talk.compaction("A", b.id)
    c = talk.user("c")
    assert since_compaction(talk.branch) == (first, [b, first, c])
    second = talk.compaction("A, b", c.id)
    assert since_compaction(talk.branch) == (second, [c, second])


def test_a_compaction_that_kept_nothing_has_only_what_follows() -> None:
    talk = Talk()
    talk.user("a")
    compaction = talk.compaction("A", "e2")  # its own id, as other programs write it
    b = talk.user("b")
    assert since_compaction(talk.branch) == (compaction, [b])


def test_usage_is_reported_in_tokens_and_percent() -> None:
    talk = Talk()
    assert context_usage(talk.branch, 200_000) == (0, 0.0)
    talk.user(words(30))
    assert context_usage(talk.branch, 200_000) == (30, 30 / 200_000 * 100)
    talk.says("ok", used=120)
    assert context_usage(talk.branch, 200_000) == (120, 0.06)
    assert context_usage(talk.branch, 0) == (120, None)


def test_usage_is_unknown_between_a_compaction_and_the_next_answer() -> None:
    talk = Talk()
    kept = talk.user("hi")
    talk.says("hello", used=120)
    talk.compaction("S", kept.id)
    talk.user("and now?")
    talk.says(stop="aborted", used=80)
    assert context_usage(talk.branch, 1000) == (None, None)
    talk.says("ok", used=50)
    assert context_usage(talk.branch, 1000) == (50, 5.0)
