from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from support.entry_builder import MODEL, Talk, answer, call, words
from support.virtual_clock import leapt
from support.whole_branch import context
from tau.core.agent.draft import Draft, MessageDone
from tau.core.conversation.branches import Branch
from tau.core.conversation.compaction import CompactionReason
from tau.core.conversation.summaries import SummaryRequest
from tau.core.conversation.tokens import estimate
from tau.errors import Aborted, CommandError, ModelError
from tau.records.base import UNSET, UnsetType, replace
from tau.records.events import CompactionEnd, CompactionResult, CompactionStart, Event
from tau.records.messages import AnyMessage, Assistant, CompactionSummary, Usage
from tau.records.models import Model, ThinkingLevel
from tau.records.settings import CompactionSettings, RetrySettings, Settings
from tau.runtime.abort import AbortSignal
from tau.runtime.runs.compactor import RECOVERY_FAILED, BranchText, Compactor

SOON = 5  # seconds after which a test gives up
HASTY = Settings(compaction=CompactionSettings(keep_recent_tokens=300), retry=RetrySettings(base_delay_ms=0))
AT = 1767323045678


@dataclass
class Choice:
    """The models of a session."""

    current: Model | None = MODEL
    level: ThinkingLevel = "medium"

    def ready(self) -> Model:
        if self.current is None:
            raise CommandError("No model selected.")
        return self.current


class Book:
    """The log of a session."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self.dropped: list[AnyMessage] = []

    @property
    def tree(self) -> Any:
        return self.talk.tree

    @tree.setter
    def tree(self, tree: Any) -> None: ...

    def compact(
        self,
        summary: str,
        first_kept: str,
        tokens_before: int,
        details: Any,
        *,
        from_hook: bool = False,
        usage: Usage | UnsetType = UNSET,
    ) -> None:
        self.talk.compaction(summary, first_kept, tokens_before, details=details, from_hook=from_hook, usage=usage)

    def drop_last_answer(self) -> None:
        self.dropped.append(self.talk.messages[-1])


Step = str | Assistant | Exception | Callable[[], Coroutine[Any, Any, str]]


@dataclass
class Home:
    """A session in which a model answers what the script says."""

    talk: Talk
    script: list[Step] = field(default_factory=list)
    settings: Settings = HASTY
    models: Choice = field(default_factory=Choice)
    events: list[Event] = field(default_factory=list)
    asked: list[SummaryRequest] = field(default_factory=list)
    stopped: int = 0

    def __post_init__(self) -> None:
        self.log = Book(self.talk)
        self.compactor = Compactor(self, stop_run=self.stop_run)

    def stop_run(self) -> None:
        self.stopped += 1

    async def emit(self, event: Event) -> None:
        self.events.append(
            replace(event, result=bare(event.result)) if isinstance(event, CompactionEnd) and event.result else event
        )

    async def stream_summary(self, request: SummaryRequest, draft: Draft) -> AsyncIterator[Sequence[Any]]:
        self.asked.append(request)
        yield [draft.begin()]
        step = self.script.pop(0)
        if isinstance(step, Exception):
            raise step
        if callable(step):
            step = await step()
        yield [MessageDone(answer(step) if isinstance(step, str) else step)]

    @property
    def context_tokens(self) -> int:
        return sum(map(estimate, self.context))

    @property
    def context(self) -> list[AnyMessage]:
        return context([*Branch(self.talk.tree)])


def bare(result: CompactionResult) -> CompactionResult:
    """What is decided, without what is measured."""
    return CompactionResult(result.summary, result.first_kept_entry_id, result.tokens_before, result.details)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(SOON):
            return await work

    return leapt(bounded())


async def for_ever() -> str:
    await asyncio.Event().wait()
    return ""


def two_turns() -> Talk:
    talk = Talk()
    talk.user("first")
    talk.says("one", call("1", "read", path="a.txt"))
    talk.result("1", "text")
    talk.user(words(400))
    talk.says("two", used=1000)
    return talk


def split_turn() -> Talk:
    talk = Talk()
    talk.user("before")
    talk.says("yes")
    talk.user("go")
    talk.says(words(400))
    return talk


FILES = {"readFiles": ["a.txt"], "modifiedFiles": []}
NONE: dict[str, list[str]] = {"readFiles": [], "modifiedFiles": []}
SUMMARY = "S\n\n<read-files>\na.txt\n</read-files>"


# When the client asks.


def test_the_older_part_is_replaced_by_its_summary() -> None:
    async def told() -> None:
        home = Home(two_turns(), ["S"])
        result = await home.compactor.compact("the tests")
        assert bare(result) == CompactionResult(SUMMARY, "e4", 1000, FILES)
        assert (result.estimated_tokens_after, result.first_kept_entry_index) == (home.context_tokens, 4)
        assert result.usage == answer("S").usage
        assert home.context == [CompactionSummary(SUMMARY, 1000, AT), *home.talk.messages[3:]]
        (asked,) = home.asked
        assert (asked.max_tokens, asked.thinking) == (8192, "medium")
        assert "[User]: first" in asked.prompt and asked.prompt.endswith("Additional focus: the tests")
        events = [
            CompactionStart("manual"),
            CompactionEnd("manual", CompactionResult(SUMMARY, "e4", 1000, FILES), False, False),
        ]
        assert (home.events, home.stopped, home.compactor.busy) == (events, 1, False)

    run(told())


def test_a_split_turn_is_asked_for_one_after_the_other() -> None:
    async def told() -> None:
        home = Home(split_turn())
        answered = asyncio.Event()

        async def slow() -> str:
            await answered.wait()
            return "H"

        home.script = [slow, "P"]
        compaction = asyncio.create_task(home.compactor.compact())
        while not home.asked:
            await asyncio.sleep(0)
        assert (len(home.asked), home.compactor.busy) == (1, True)
        answered.set()
        result = await compaction
        assert result.summary == "H\n\n---\n\n**Turn Context (split turn):**\n\nP"
        assert [asked.thinking for asked in home.asked] == ["medium", "off"]

    run(told())


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ([ModelError("400 nope")], "Summarization failed: 400 nope"),
        (["H", ModelError("400 nope")], "Turn prefix summarization failed: 400 nope"),
        ([answer("half", stop="length")], "Summarization failed: The summary was cut off at its length limit."),
        ([answer(" ")], "Summarization failed: The model answered without a summary."),
        (["H", answer()], "Turn prefix summarization failed: The model answered without a summary."),
    ],
)
def test_what_fails_is_reported_and_nothing_is_changed(script: list[Step], error: str) -> None:
    async def told() -> None:
        home = Home(split_turn(), script)
        with pytest.raises(CommandError) as raised:
            await home.compactor.compact()
        assert (str(raised.value), len(home.talk.branch), home.compactor.busy) == (error, 4, False)

    run(told())


def test_there_is_nothing_to_compact_twice() -> None:
    async def told() -> None:
        home = Home(two_turns(), ["S"])
        answers = await asyncio.gather(home.compactor.compact(), home.compactor.compact(), return_exceptions=True)
        assert [str(one) for one in answers[1:]] == ["Already compacted"]
        assert isinstance(answers[0], CompactionResult)

    run(told())


def test_a_small_session_and_one_without_a_model_are_refused() -> None:
    async def told() -> None:
        with pytest.raises(CommandError, match=r"Nothing to compact \(session too small\)"):
            await Home(Talk()).compactor.compact()
        with pytest.raises(CommandError, match=r"No model selected\."):
            await Home(two_turns(), models=Choice(None)).compactor.compact()

    run(told())


def test_a_transient_failure_is_tried_again() -> None:
    async def told() -> None:
        home = Home(two_turns(), [ModelError("529 overloaded"), ModelError("strange", transient=True), "S"])
        assert (await home.compactor.compact()).summary == SUMMARY
        assert len(home.asked) == 3

    run(told())


def test_a_failure_that_lasts_is_reported_after_the_last_try() -> None:
    async def told() -> None:
        home = Home(two_turns(), [ModelError("529 overloaded")] * 5)
        with pytest.raises(CommandError, match="Summarization failed: 529 overloaded"):
            await home.compactor.compact()
        assert len(home.asked) == 4

    run(told())


# Abort.


async def abort_when_asked(home: Home, times: int = 1) -> str:
    compaction = asyncio.create_task(home.compactor.compact())
    while len(home.asked) < times:
        await asyncio.sleep(0)
    async with asyncio.timeout(1):
        await home.compactor.abort()
    with pytest.raises(CommandError) as raised:
        await compaction
    return str(raised.value)


def test_a_compaction_can_be_aborted() -> None:
    async def told() -> None:
        home = Home(two_turns(), [for_ever])
        assert await abort_when_asked(home) == "Compaction cancelled"
        assert (len(home.talk.branch), home.compactor.busy) == (5, False)
        home.script = ["S"]
        assert (await home.compactor.compact()).summary == SUMMARY

    run(told())


def test_a_model_that_does_not_stop_is_left_behind() -> None:
    async def told() -> None:
        free = asyncio.Event()

        async def stubborn() -> str:
            while not free.is_set():
                try:
                    await free.wait()
                except asyncio.CancelledError:
                    continue
            return "too late"

        home = Home(two_turns(), [stubborn])
        assert await abort_when_asked(home) == "Compaction cancelled"
        free.set()
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0)
        assert len(home.talk.branch) == 5

    run(told())


def test_the_wait_for_the_next_try_can_be_aborted() -> None:
    async def told() -> None:
        patient = Settings(compaction=CompactionSettings(keep_recent_tokens=300))
        home = Home(two_turns(), [ModelError("529 overloaded")], patient)
        assert await abort_when_asked(home) == "Compaction cancelled"

    run(told())


def test_a_compaction_that_waits_for_its_turn_can_be_aborted() -> None:
    async def told() -> None:
        home = Home(two_turns())
        async with home.compactor.turn:
            compaction = asyncio.create_task(home.compactor.compact())
            await asyncio.sleep(0)
            aborting = asyncio.create_task(home.compactor.abort())
            await asyncio.sleep(0)
        with pytest.raises(CommandError, match="Compaction cancelled"):
            await compaction
        await aborting
        assert (home.asked, home.stopped) == ([], 1)

    run(told())


def test_a_cancelled_caller_leaves_nothing_behind() -> None:
    async def told() -> None:
        home = Home(two_turns(), [for_ever])
        compaction = asyncio.create_task(home.compactor.compact())
        while not home.asked:
            await asyncio.sleep(0)
        compaction.cancel()
        with pytest.raises(asyncio.CancelledError):
            await compaction
        assert (len(asyncio.all_tasks()), home.compactor.busy, home.compactor.turn.locked()) == (1, False, False)
        await home.compactor.abort()

    run(told())


def test_nothing_to_abort_is_no_error() -> None:
    async def told() -> None:
        await Home(Talk()).compactor.abort()

    run(told())


# One at a time.


def test_a_compaction_stops_the_run_and_goes_before_the_next() -> None:
    async def told() -> None:
        home = Home(two_turns(), ["S"])
        order: list[str] = []

        async def play(name: str) -> None:
            async with home.compactor.turn:
                while not home.stopped:
                    await asyncio.sleep(0)
                order.append(name)

        async def compact() -> None:
            await home.compactor.compact()
            order.append("compaction")

        async with asyncio.TaskGroup() as tasks:
            for work in (play("first run"), compact(), play("second run")):
                tasks.create_task(work)
        assert order == ["first run", "compaction", "second run"]

    run(told())


@pytest.mark.parametrize("how", ["nothing to do", "no model"])
def test_a_compaction_that_is_refused_has_not_stopped_the_run(how: str) -> None:
    async def told() -> None:
        home = Home(two_turns() if how == "no model" else Talk(), models=Choice(None if how == "no model" else MODEL))
        async with home.compactor.turn:  # as a run holds it
            with pytest.raises(CommandError):
                await home.compactor.compact()
        assert home.stopped == 0
        start, end = home.events
        assert isinstance(start, CompactionStart) and isinstance(end, CompactionEnd)

    run(told())


def test_the_second_of_two_compactions_does_not_stop_the_run_that_follows_the_first() -> None:
    async def told() -> None:
        home = Home(two_turns(), ["S"])
        first = asyncio.create_task(home.compactor.compact())
        second = asyncio.create_task(home.compactor.compact())
        await first
        async with home.compactor.turn:
            with pytest.raises(CommandError, match="Already compacted"):
                await second
        assert home.stopped == 1

    run(told())


# By itself.


def full() -> Talk:
    talk = two_turns()
    talk.says("full", used=190_000)
    return talk


def overflowed() -> Talk:
    talk = two_turns()
    talk.says(error="400 prompt is too long: 213462 tokens > 200000 maximum")
    return talk


def test_a_full_window_is_compacted_after_a_run() -> None:
    async def told() -> None:
        home = Home(full(), ["S"])
        assert await home.compactor.after_run(AbortSignal()) is False
        result = CompactionResult(SUMMARY, "e4", 190_000, FILES)
        assert home.events == [CompactionStart("threshold"), CompactionEnd("threshold", result, False, False)]
        assert (home.log.dropped, home.compactor.busy) == ([], False)
        await home.compactor.before_prompt(AbortSignal())
        assert len(home.events) == 2

    run(told())


def test_a_full_window_is_compacted_before_a_prompt() -> None:
    async def told() -> None:
        home = Home(full(), ["S"])
        home.talk.user("next")  # accepted, not yet told
        await home.compactor.before_prompt(AbortSignal())
        assert home.context[-1] == home.talk.messages[-1]
        assert [type(event) for event in home.events] == [CompactionStart, CompactionEnd]

    run(told())


@pytest.mark.promise("E14")
def test_an_overflow_is_compacted_once() -> None:
    async def told() -> None:
        home = Home(overflowed(), ["S"])
        assert await home.compactor.after_run(AbortSignal()) is True
        result = CompactionResult(SUMMARY, "e4", 1000, FILES)
        assert home.events == [CompactionStart("overflow"), CompactionEnd("overflow", result, False, True)]
        assert home.log.dropped == home.talk.messages[-1:]

        home.talk.message(home.log.dropped[0])
        assert await home.compactor.after_run(AbortSignal()) is False
        assert home.events[2:] == [CompactionEnd("overflow", None, False, False, RECOVERY_FAILED)]
        home.talk.user("and now?")
        await home.compactor.before_prompt(AbortSignal())
        assert len(home.events) == 3

    run(told())


def test_before_a_prompt_an_overflow_is_compacted_without_repeating_its_request() -> None:
    async def told() -> None:
        home = Home(overflowed(), ["S"])
        home.talk.user("next")
        await home.compactor.before_prompt(AbortSignal())
        result = CompactionResult(SUMMARY, "e4", 1001, FILES)
        assert home.events == [CompactionStart("overflow"), CompactionEnd("overflow", result, False, False)]

    run(told())


def test_an_overflow_that_cannot_be_compacted_is_reported() -> None:
    async def told() -> None:
        talk = Talk()
        talk.user(words(500))
        talk.says(error="prompt is too long")
        home = Home(talk)
        assert await home.compactor.after_run(AbortSignal()) is False
        error = "Context overflow recovery failed: Nothing to compact (session too small)"
        assert home.events == [CompactionStart("overflow"), CompactionEnd("overflow", None, False, False, error)]

    run(told())


def test_a_window_that_is_full_of_what_must_be_kept_is_not_mentioned() -> None:
    async def told() -> None:
        talk = Talk()
        talk.user(words(500))
        talk.says("ok", used=190_000)
        home = Home(talk)
        assert await home.compactor.after_run(AbortSignal()) is False
        assert home.events == []

    run(told())


@pytest.mark.parametrize(
    ("talk", "reason", "error"),
    [
        (full, "threshold", "Auto-compaction failed: Summarization failed: 400 nope"),
        (overflowed, "overflow", "Context overflow recovery failed: Summarization failed: 400 nope"),
    ],
)
def test_an_automatic_compaction_that_fails_says_why(
    talk: Callable[[], Talk], reason: CompactionReason, error: str
) -> None:
    async def told() -> None:
        home = Home(talk(), [ModelError("400 nope")])
        assert await home.compactor.after_run(AbortSignal()) is False
        assert home.events[1:] == [CompactionEnd(reason, None, False, False, error)]

    run(told())


def test_the_run_goes_on_whatever_happens_to_its_compaction() -> None:
    async def told() -> None:
        home = Home(full(), [RuntimeError("a bug")])
        assert await home.compactor.after_run(AbortSignal()) is False
        error = "Auto-compaction failed: RuntimeError: a bug"
        assert home.events[1:] == [CompactionEnd("threshold", None, False, False, error)]

    run(told())


@pytest.mark.parametrize(("talk", "reason"), [(full, "threshold"), (overflowed, "overflow")])
def test_the_switch_of_the_run_stops_its_compaction(talk: Callable[[], Talk], reason: CompactionReason) -> None:
    async def told() -> None:
        home, switch = Home(talk(), [for_ever]), AbortSignal()
        work = asyncio.create_task(home.compactor.after_run(switch))
        while not home.asked:
            await asyncio.sleep(0)
        assert home.compactor.busy
        switch.abort()
        assert await work is False
        assert home.events[1:] == [CompactionEnd(reason, None, True, False)]

    run(told())


def test_abort_stops_an_automatic_compaction() -> None:
    async def told() -> None:
        home = Home(full(), [for_ever])
        work = asyncio.create_task(home.compactor.after_run(AbortSignal()))
        while not home.asked:
            await asyncio.sleep(0)
        await home.compactor.abort()
        assert await work is False
        assert home.events[1:] == [CompactionEnd("threshold", None, True, False)]

    run(told())


def test_an_aborted_run_is_left_alone() -> None:
    async def told() -> None:
        home, switch = Home(full()), AbortSignal()
        switch.abort()
        assert await home.compactor.after_run(switch) is False
        await home.compactor.before_prompt(switch)
        assert home.events == []

    run(told())


def test_compaction_that_is_switched_off_happens_only_when_asked_for() -> None:
    async def told() -> None:
        off = Settings(compaction=CompactionSettings(enabled=False, keep_recent_tokens=300))
        home = Home(full(), ["S"], off)
        assert await home.compactor.after_run(AbortSignal()) is False
        assert home.events == []
        assert (await home.compactor.compact()).summary == SUMMARY

    run(told())


def test_without_a_model_nothing_is_due() -> None:
    async def told() -> None:
        home = Home(full(), models=Choice(None))
        assert await home.compactor.after_run(AbortSignal()) is False

    run(told())


# Branches that are left.


def test_a_branch_that_is_left_is_summarised() -> None:
    async def told() -> None:
        home = Home(two_turns(), ["B"])
        async with home.compactor.alone() as switch:
            made = await home.compactor.branch_summary(home.talk.branch[1:], switch, "tests")
        assert made == BranchText(
            "The user left this point of the conversation for another branch and came back to it.\n"
            "This is what happened on that branch:\n\nB\n\n<read-files>\na.txt\n</read-files>",
            FILES,
            Usage(),
        )
        assert home.asked[0].prompt.endswith("Additional focus: tests")

    run(told())


def test_a_branch_without_content_is_not_asked_about() -> None:
    async def told() -> None:
        home = Home(two_turns())
        assert await home.compactor.branch_summary([], AbortSignal()) == BranchText("No content to summarize", NONE)
        assert home.asked == []

    run(told())


def test_a_branch_that_cannot_be_summarised_is_reported() -> None:
    async def told() -> None:
        home = Home(two_turns(), [ModelError("400 nope")])
        with pytest.raises(CommandError, match="Branch summarization failed: 400 nope"):
            await home.compactor.branch_summary(home.talk.branch, AbortSignal())

    run(told())


def test_the_summary_of_a_branch_can_be_aborted() -> None:
    async def told() -> None:
        home = Home(two_turns(), [for_ever])

        async def leave() -> None:
            async with home.compactor.alone() as switch:
                await home.compactor.branch_summary(home.talk.branch, switch)

        leaving = asyncio.create_task(leave())
        while not home.asked:
            await asyncio.sleep(0)
        await home.compactor.abort()
        with pytest.raises(Aborted):
            await leaving

    run(told())


def test_an_unforeseen_failure_ends_a_compaction_that_was_announced() -> None:
    async def told() -> None:
        home = Home(two_turns(), [OSError(24, "Too many open files")])
        with pytest.raises(OSError, match="Too many open files"):
            await home.compactor.compact()
        assert [type(event) for event in home.events] == [CompactionStart, CompactionEnd]

    run(told())
