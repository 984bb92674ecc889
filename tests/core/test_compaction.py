from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from support.entry_builder import MODEL, Talk, answer, call, words
from support.whole_branch import context
from tau.core.conversation.compaction import (
    ALREADY_COMPACTED,
    NOTHING_TO_COMPACT,
    CompactionDue,
    CompactionPlan,
    compaction_due,
    plan_compaction,
    settings_for_window,
    should_compact,
)
from tau.core.conversation.summaries import TouchedFiles, summary_input
from tau.core.conversation.tokens import TreeEntry, context_tokens, entry_tokens
from tau.records.base import replace
from tau.records.entries import CompactionEntry
from tau.records.messages import AnyMessage, Assistant, CompactionSummary, Image, ToolResult, Usage, User
from tau.records.settings import CompactionSettings

KEEP_300 = CompactionSettings(keep_recent_tokens=300)
DEFAULTS = CompactionSettings()


def planned(branch: list[TreeEntry], settings: CompactionSettings = KEEP_300) -> CompactionPlan:
    plan = plan_compaction(branch, settings)
    assert isinstance(plan, CompactionPlan)
    return plan


def cut(branch: list[TreeEntry], keep: int) -> tuple[list[AnyMessage], list[AnyMessage], str]:
    """What becomes history, what becomes the prefix of a split turn, and the entry that is kept first."""
    plan = planned(branch, CompactionSettings(keep_recent_tokens=keep))
    return plan.history, plan.prefix, plan.first_kept_entry_id


# Where the cut is.


def test_the_cut_is_where_enough_recent_tokens_are_kept() -> None:
    talk = Talk()
    for _ in range(2):
        talk.user(words(250))
        talk.says(words(250))
    assert cut(talk.branch, 300) == (talk.messages[:2], [], "e3")


@pytest.mark.parametrize(
    ("keep", "first_kept", "history", "prefix"),
    [
        (0, "e6", 2, 3),  # the last answer alone
        (10, "e6", 2, 3),
        (11, "e6", 2, 3),  # the result is reached, which is no place for a cut
        (13, "e4", 2, 1),
        (14, "e3", 2, 0),  # the prompt is reached: no turn is split
        (23, "e3", 2, 0),
        (24, "e2", 0, 1),
        (33, "e2", 0, 1),
    ],
)
def test_a_turn_is_split_where_it_must_be(keep: int, first_kept: str, history: int, prefix: int) -> None:
    talk = Talk()
    talk.user(words(10))
    talk.says(words(10))
    talk.user(words(10))
    talk.says(call("1"))  # 2 tokens
    talk.result("1", words(1))
    talk.says(words(10))
    said = talk.messages
    turn = 0 if first_kept == "e2" else 2
    assert cut(talk.branch, keep) == (said[:history], said[turn : turn + prefix], first_kept)


def test_a_single_giant_turn_has_no_history() -> None:
    talk = Talk()
    talk.user("go")
    for n in range(20):
        talk.says(call(str(n)))
        talk.result(str(n), words(100))
    talk.says("done")
    assert cut(talk.branch, 300) == ([], talk.messages[:37], "e38")


def test_a_giant_last_result_stays_with_the_answer_that_called_for_it() -> None:
    talk = Talk()
    talk.user(words(100))
    talk.says(call("1"), call("2"))
    talk.result("1", "small")
    talk.result("2", words(50_000))
    assert cut(talk.branch, 300) == ([], talk.messages[:1], "e2")


def test_a_giant_result_in_the_middle_is_summarised() -> None:
    talk = Talk()
    talk.user("go")
    talk.says(call("1"))
    talk.result("1", words(50_000))
    talk.says(words(20))
    assert cut(talk.branch, 300) == ([], talk.messages[:3], "e4")


def test_what_is_said_between_a_call_and_its_result_is_no_place_for_a_cut() -> None:
    talk = Talk()
    talk.user(words(100))
    talk.says(call("1"))
    talk.custom(words(100))
    talk.bash("ls", words(100))
    talk.result("1", words(100))
    assert cut(talk.branch, 150) == ([], talk.messages[:1], "e2")


def test_an_id_that_a_model_uses_again_ties_only_the_answer_and_its_own_results() -> None:
    talk = Talk()
    for _ in range(3):
        talk.user(words(100))
        talk.says(call("same"))
        talk.result("same", words(100))
    talk.says("done")
    assert cut(talk.branch, 220) == (talk.messages[:6], [], "e7")


def test_a_result_without_a_call_ties_nothing() -> None:
    talk = Talk()
    talk.user(words(100))
    talk.says(call("1"))
    talk.says(words(100))
    talk.user(words(100))
    talk.result("1", words(10))
    assert cut(talk.branch, 50)[2] == "e4"


@pytest.mark.parametrize(
    "begin",
    [
        lambda talk: talk.user(words(50)),
        lambda talk: talk.bash("ls", words(50)),
        lambda talk: talk.custom(words(50)),
        lambda talk: talk.branch_summary(words(50)),
    ],
)
def test_whatever_is_said_to_the_model_begins_a_turn(begin: Callable[[Talk], TreeEntry]) -> None:
    talk = Talk()
    talk.user(words(50))
    talk.says(words(50))
    begin(talk)
    talk.says(words(50))
    assert cut(talk.branch, 100) == (talk.messages[:2], [], "e3")
    assert cut(talk.branch, 20)[2] == "e4"


def test_settings_and_labels_before_the_cut_are_kept_with_it() -> None:
    talk = Talk()
    talk.user(words(100))
    talk.says(words(100))
    talk.level()
    talk.label()
    talk.state()
    talk.other()
    talk.user(words(100))
    assert cut(talk.branch, 50) == (talk.messages[:2], [], "e3")


def test_settings_before_a_cut_inside_a_turn_do_not_hide_the_turn() -> None:
    talk = Talk()
    talk.user(words(100))
    talk.says(words(100))
    talk.user(words(100))
    talk.level()
    talk.says(words(100))
    assert cut(talk.branch, 50) == (talk.messages[:2], talk.messages[2:3], "e4")


def test_what_the_model_never_sees_is_neither_weighed_nor_cut_at() -> None:
    talk = Talk()
    talk.user(words(100))
    talk.says(words(100))
    talk.user(words(100))
    talk.bash("secret", words(9000), exclude=True)
    talk.says(words(9000), stop="aborted")
    talk.says(error="prompt is too long")
    assert cut(talk.branch, 100) == (talk.messages[:2], [], "e3")


# Nothing to do.


def test_an_empty_session_is_too_small() -> None:
    assert plan_compaction([], DEFAULTS) == NOTHING_TO_COMPACT


def test_a_session_with_settings_only_is_too_small() -> None:
    talk = Talk()
    talk.level()
    assert plan_compaction(talk.branch, DEFAULTS) == NOTHING_TO_COMPACT


def test_a_session_that_fits_into_what_is_kept_is_too_small() -> None:
    talk = Talk()
    talk.level()
    talk.user("hi")
    talk.says("hello", used=100)
    assert plan_compaction(talk.branch, DEFAULTS) == NOTHING_TO_COMPACT


def test_a_session_whose_only_message_is_too_large_cannot_be_made_smaller() -> None:
    talk = Talk()
    talk.user(words(50_000))
    talk.says(error="prompt is too long")
    assert plan_compaction(talk.branch, DEFAULTS) == NOTHING_TO_COMPACT


def test_there_is_nothing_to_summarise_in_what_the_model_never_saw() -> None:
    talk = Talk()
    talk.bash("secret", words(10), exclude=True)
    talk.says("half", stop="aborted")
    talk.user(words(500))
    assert plan_compaction(talk.branch, KEEP_300) == NOTHING_TO_COMPACT


def test_a_branch_that_ends_in_a_compaction_is_compacted() -> None:
    talk = Talk()
    kept = talk.user("hi")
    talk.compaction("S", kept.id)
    assert plan_compaction(talk.branch, CompactionSettings(keep_recent_tokens=0)) == ALREADY_COMPACTED


# The second time.


def test_what_an_earlier_compaction_kept_is_summarised_and_not_lost() -> None:
    talk = Talk()
    talk.user("long ago")
    kept = talk.user(words(200))
    talk.says(words(200), used=90_000)
    talk.compaction("SUMMARY", kept.id)
    talk.user(words(250))
    talk.says(words(250))
    plan = planned(talk.branch)
    assert plan == CompactionPlan(talk.messages[1:3], [], "e5", 2 + 400 + 500, "SUMMARY", TouchedFiles())
    assert plan.summary(["NEW"]) == "NEW"


def test_an_earlier_compaction_that_kept_nothing_known_begins_after_itself() -> None:
    talk = Talk()
    talk.user("long ago")
    talk.compaction("SUMMARY", "gone")
    talk.user(words(200))
    talk.says(words(200))
    talk.user(words(400))
    assert cut(talk.branch, 300) == (talk.messages[1:3], [], "e5")


def test_a_cut_may_lie_before_the_earlier_compaction() -> None:
    talk = Talk()
    first = talk.user(words(200))
    talk.says(words(200))
    talk.user(words(200))
    talk.compaction("SUMMARY", first.id)
    talk.says(words(200))
    assert cut(talk.branch, 300) == (talk.messages[:2], [], "e3")


def test_with_the_same_cut_again_there_is_nothing_to_do() -> None:
    talk = Talk()
    first = talk.user(words(200))
    talk.compaction("SUMMARY", first.id)
    talk.says("short")
    assert plan_compaction(talk.branch, DEFAULTS) == NOTHING_TO_COMPACT


def test_the_earlier_summary_stays_when_only_the_beginning_of_a_turn_is_summarised() -> None:
    talk = Talk()
    talk.user("long ago")
    talk.compaction("SUMMARY\n\n<read-files>\na\n</read-files>", "gone", details={"readFiles": ["a"]})
    talk.user("go")
    talk.says(words(400))
    plan = planned(talk.branch)
    assert (plan.history, plan.prefix) == ([], talk.messages[1:2])
    assert plan.summary(["PREFIX"]) == (
        "SUMMARY\n\n---\n\n**Turn Context (split turn):**\n\nPREFIX\n\n<read-files>\na\n</read-files>"
    )


# Files.


def test_files_are_gathered_from_earlier_compactions_and_what_is_summarised() -> None:
    talk = Talk()
    talk.user("long ago")
    talk.compaction("S", "gone", details={"readFiles": ["a", "b"], "modifiedFiles": ["m"]})
    talk.user("go")
    talk.says(call("1", "read", path="c"), call("2", "write", path="b"), call("3", "bash", path="no"))
    talk.result("1", "…")
    talk.user("more")
    talk.says(call("4", "edit", path="e"), call("5", "read", path=7))
    talk.says(words(400), call("6", "read", path="kept"))
    plan = planned(talk.branch)
    assert plan.details == {"readFiles": ["a", "c"], "modifiedFiles": ["b", "e", "m"]}


def test_details_of_an_extensions_compaction_are_its_own() -> None:
    talk = Talk()
    talk.compaction("S\n\n<read-files>\na\n</read-files>", "gone", details={"readFiles": ["a"]}, from_hook=True)
    talk.user("go")
    talk.says("yes")
    talk.user(words(400))
    plan = planned(talk.branch)
    assert (plan.previous, plan.files) == ("S\n\n<read-files>\na\n</read-files>", TouchedFiles())


# What is asked.


def test_a_clean_cut_asks_once_with_the_sessions_thinking() -> None:
    talk = Talk()
    talk.user(words(200))
    talk.user(words(400))
    (asked,) = planned(talk.branch).requests(DEFAULTS, replace(MODEL, max_tokens=64_000), "medium", "tests")
    assert (asked.title, asked.max_tokens, asked.thinking) == ("Summarization", 13107, "medium")
    assert asked.prompt.endswith("\n\nAdditional focus: tests")


def test_a_split_turn_asks_twice_and_does_not_think_about_the_prefix() -> None:
    talk = Talk()
    talk.user("before")
    talk.says("yes")
    talk.user("go")
    talk.says(words(400))
    asked = planned(talk.branch).requests(DEFAULTS, replace(MODEL, max_tokens=64_000), "high", "tests")
    assert [(one.title, one.max_tokens, one.thinking) for one in asked] == [
        ("Summarization", 13107, "high"),
        ("Turn prefix summarization", 8192, "off"),
    ]
    assert all(one.prompt.endswith("\n\nAdditional focus: tests") for one in asked)
    assert planned(talk.branch).summary(["HISTORY", "PREFIX"]) == (
        "HISTORY\n\n---\n\n**Turn Context (split turn):**\n\nPREFIX"
    )


def test_without_history_a_split_turn_asks_only_for_its_prefix() -> None:
    talk = Talk()
    talk.user("go")
    talk.says(words(400))
    plan = planned(talk.branch)
    assert [one.title for one in plan.requests(DEFAULTS, MODEL, "high")] == ["Turn prefix summarization"]
    assert plan.summary(["PREFIX"]) == "No prior history.\n\n---\n\n**Turn Context (split turn):**\n\nPREFIX"


def test_a_summary_is_no_longer_than_the_model_can_say() -> None:
    talk = Talk()
    talk.user("before")
    talk.user("go")
    talk.says(words(400))
    plan = planned(talk.branch)
    assert [one.max_tokens for one in plan.requests(DEFAULTS, MODEL, "off")] == [8192, 8192]
    assert [one.max_tokens for one in plan.requests(CompactionSettings(reserve_tokens=10), MODEL, "off")] == [1024] * 2


# When it is due.


@pytest.mark.parametrize(
    ("tokens", "settings", "compact"),
    [
        (183_616, DEFAULTS, False),
        (183_617, DEFAULTS, True),
        (183_617, CompactionSettings(enabled=False), False),
        (200_000, CompactionSettings(reserve_tokens=0), False),
    ],
)
def test_the_reserve_stays_free(tokens: int, settings: CompactionSettings, compact: bool) -> None:
    assert should_compact(tokens, 200_000, settings) is compact


@pytest.mark.parametrize(
    ("window", "reserve", "keep"),
    [
        (200_000, 16384, 20000),
        (40_000, 16384, 20000),
        (32_768, 16384, 8192),
        (16_384, 8192, 4096),
        (4096, 2048, 1024),
        (0, 16384, 20000),
    ],
)
def test_a_small_window_gets_a_small_reserve(window: int, reserve: int, keep: int) -> None:
    assert settings_for_window(DEFAULTS, window) == CompactionSettings(reserve_tokens=reserve, keep_recent_tokens=keep)


def found(talk: Talk, *, before_prompt: bool = False, window: int = 200_000, **settings: bool) -> CompactionDue | None:
    model = replace(MODEL, context_window=window)
    return compaction_due(talk.branch, model, CompactionSettings(**settings), before_prompt=before_prompt)


OVERFLOWED = answer(error="400 prompt is too long: 213462 tokens > 200000 maximum")
FULL = answer("long", used=190_000)


def test_a_full_window_is_compacted() -> None:
    talk = Talk()
    talk.user("go")
    talk.message(FULL)
    assert found(talk) == CompactionDue("threshold", FULL)
    assert found(talk, before_prompt=True) == CompactionDue("threshold", FULL)
    assert found(talk, enabled=False) is None
    assert found(talk, window=400_000) is None


def test_a_smaller_model_finds_its_window_full_before_the_next_prompt() -> None:
    talk = Talk()
    talk.user("go")
    said = answer("ok", used=150_000, model="big")
    talk.message(said)
    assert found(talk, before_prompt=True, window=128_000) == CompactionDue("threshold", said)


def test_what_was_said_since_counts_too() -> None:
    talk = Talk()
    talk.message(answer("ok", used=150_000))
    talk.bash("cat book", words(50_000))
    assert found(talk, before_prompt=True) == CompactionDue("threshold", answer("ok", used=150_000))


def test_after_a_compaction_old_counts_are_not_believed() -> None:
    talk = Talk()
    talk.user("go")
    kept = talk.message(FULL)
    talk.compaction("S", kept.id)
    assert found(talk, before_prompt=True) is None
    talk.user("go on")
    assert found(talk, before_prompt=True) is None
    talk.says("short", used=30_000)
    assert found(talk) is None


def test_a_session_without_counts_is_compacted_by_estimate() -> None:
    talk = Talk()
    talk.user(words(190_000))
    talk.says("ok")
    assert found(talk) == CompactionDue("threshold", answer("ok"))


def test_an_error_is_judged_by_the_last_good_answer() -> None:
    talk = Talk()
    talk.user("go")
    talk.message(FULL)
    talk.user("more")
    failed = answer(error="529 overloaded")
    talk.message(failed)
    assert found(talk) == CompactionDue("threshold", failed)


def test_an_error_without_any_count_is_no_reason() -> None:
    talk = Talk()
    talk.user(words(190_000))
    talk.says(error="529 overloaded")
    assert found(talk) is None


def test_an_aborted_run_is_compacted_only_before_the_next_prompt() -> None:
    talk = Talk()
    talk.message(FULL)
    talk.user("more")
    aborted = answer("ha", stop="aborted")
    talk.message(aborted)
    assert found(talk) is None
    assert found(talk, before_prompt=True) == CompactionDue("threshold", aborted)


@pytest.mark.parametrize(
    ("said", "again"),
    [
        (OVERFLOWED, True),
        (answer(stop="length", usage=Usage(input=199_000, cache_read=900)), True),
        (answer("done", usage=Usage(input=150_000, cache_read=60_000)), False),  # it was answered all the same
    ],
)
def test_an_overflow_is_asked_again_unless_it_was_answered(said: Assistant, again: bool) -> None:
    talk = Talk()
    talk.user("go")
    talk.message(said)
    overflow = found(talk)
    assert overflow == CompactionDue("overflow", said)
    assert overflow.repeats_prompt is again


def test_an_overflow_of_another_model_is_no_reason() -> None:
    talk = Talk()
    talk.user("go")
    talk.message(replace(OVERFLOWED, model="small"))
    assert found(talk, before_prompt=True) is None


def test_an_overflow_right_after_a_compaction_cannot_be_helped() -> None:
    talk = Talk()
    kept = talk.user("go")
    talk.message(OVERFLOWED)
    talk.compaction("S", kept.id)
    talk.says(error="529 overloaded")
    talk.message(OVERFLOWED)
    assert found(talk) == CompactionDue("overflow", OVERFLOWED, tried=True)
    talk.user("and now?")
    assert found(talk, before_prompt=True) == CompactionDue("overflow", OVERFLOWED, tried=True)


@pytest.mark.parametrize("between", [User("smaller", 0), answer("ok", used=10)])
def test_a_new_question_or_an_answer_gives_an_overflow_another_chance(between: AnyMessage) -> None:
    talk = Talk()
    kept = talk.user("go")
    talk.message(OVERFLOWED)
    talk.compaction("S", kept.id)
    talk.message(between)
    talk.message(OVERFLOWED)
    assert found(talk) == CompactionDue("overflow", OVERFLOWED)


def test_an_answer_that_showed_the_overflow_is_no_other_chance() -> None:
    talk = Talk()
    full = answer(stop="length", usage=Usage(input=200_000))
    kept = talk.user("go")
    talk.message(full)
    talk.compaction("S", kept.id)
    talk.message(full)
    talk.message(full)
    assert found(talk) == CompactionDue("overflow", full, tried=True)


def test_a_session_without_answers_is_left_alone() -> None:
    talk = Talk()
    assert found(talk, before_prompt=True) is None
    talk.user("go")
    assert found(talk, before_prompt=True) is None


# A thousand conversations, compacted again and again.


def conversation(chance: random.Random) -> tuple[Talk, int]:
    """Some rounds of anything that can stand in a session, each compacted if that is possible."""
    talk, compactions = Talk(), 0
    for _ in range(chance.randint(1, 6)):
        for _ in range(chance.randint(1, 12)):
            add_something(talk, chance)
        plan = plan_compaction(talk.branch, CompactionSettings(keep_recent_tokens=chance.choice([0, 20, 100, 400])))
        if isinstance(plan, CompactionPlan):
            compact(talk, plan)
            compactions += 1
    return talk, compactions


def add_something(talk: Talk, chance: random.Random) -> None:
    def text() -> str:
        return words(chance.choice([0, 1, 5, 30, 200]))

    match chance.choice(["user", "user", "image", "answer", "tools", "tools", "tools", "bash", "custom", "quiet"]):
        case "user":
            talk.user(text())
        case "image":
            talk.user([Image("AAAA", "image/png")])
        case "answer":
            talk.message(chance.choice([answer(text(), used=100), answer(text(), stop="aborted"), answer(error="529")]))
        case "tools":
            calls = [call(chance.choice(["same", f"{chance.random()}"])) for _ in range(chance.randint(1, 3))]
            talk.says(text(), *calls, stop=chance.choice([None, None, None, "aborted"]))
            for one in calls:
                if chance.random() < 0.1:
                    chance.choice([talk.custom, talk.bash])(text())
                if chance.random() < 0.9:
                    talk.result(one.id, text())
        case "bash":
            talk.bash("ls", text(), exclude=chance.random() < 0.3)
        case "custom":
            chance.choice([talk.custom, talk.branch_summary])(text())
        case "quiet":
            chance.choice([talk.level, talk.label, talk.state, talk.other])()


def compact(talk: Talk, plan: CompactionPlan) -> None:
    """Compact as the host does, and look whether all is well."""
    before, weighed = context(talk.branch), context_tokens(talk.branch)
    asked = plan.requests(DEFAULTS, MODEL, "medium")
    assert asked and all("<conversation>\n[" in one.prompt for one in asked)
    summary = plan.summary([f"SUMMARY {n}" for n in range(len(asked))])
    assert summary.strip()
    assert plan.tokens_before == weighed
    talk.compaction(summary, plan.first_kept_entry_id, plan.tokens_before, details=plan.details, from_hook=False)

    # The context is the summary and then, word for word, what stood behind the cut.
    after = context(talk.branch)
    entry = talk.branch[-1]
    assert isinstance(entry, CompactionEntry)
    assert after[0] == CompactionSummary(summary, plan.tokens_before, 1767323045678)
    kept, was = after[1:], [message for message in before if not isinstance(message, CompactionSummary)]
    assert was[len(was) - len(kept) :] == kept

    # Everything that is gone from it was summarised.
    gone = was[: len(was) - len(kept)]
    assert [message for message in gone if summary_input(message)] == [*plan.history, *plan.prefix]
    assert not parted(gone, kept)


def parted(gone: Sequence[AnyMessage], kept: Sequence[AnyMessage]) -> bool:
    """Whether a result was kept whose call, of the last answer before it, was not."""
    calls: set[str] = set()
    for at, message in enumerate([*gone, *kept]):
        if isinstance(message, Assistant) and not message.failed:
            calls, called = {one.id for one in message.tool_calls}, at
        elif isinstance(message, ToolResult) and message.tool_call_id in calls and called < len(gone) <= at:
            return True
    return False


def test_a_thousand_conversations_lose_nothing_and_part_nothing() -> None:
    compactions = 0
    for seed in range(1000):
        _, made = conversation(random.Random(seed))
        compactions += made
    assert compactions > 1000


def test_no_more_is_kept_than_there_must_be() -> None:
    """Behind the place of the cut there is too little to cut again: the next place would keep less than wanted."""
    for seed in range(200):
        talk, _ = conversation(random.Random(seed))
        plan = plan_compaction(talk.branch, KEEP_300)
        if isinstance(plan, CompactionPlan):
            at = next(i for i, entry in enumerate(talk.branch) if entry.id == plan.first_kept_entry_id)
            later = [place for place in range(at, len(talk.branch)) if begins(talk.branch, place)][1:]
            assert all(sum(map(entry_tokens, talk.branch[place:])) < 300 for place in later)


def begins(branch: list[TreeEntry], place: int) -> bool:
    """Whether an answer or a prompt stands there, outside of a round of tools."""
    message = getattr(branch[place], "message", None)
    return isinstance(message, User) or (isinstance(message, Assistant) and not message.failed)
