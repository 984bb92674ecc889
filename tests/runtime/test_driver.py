from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from support.loop_kit import Stage, Tool, assistant, breaks, call, ok, play, speaks, user
from support.virtual_clock import Clock, leapt, played
from tau.core.agent.draft import Draft, MessageFailed, Update
from tau.core.agent.loop import agent_run
from tau.errors import ModelError, ToolError
from tau.records.events import AgentEnd, Event, MessageEnd, Outcome, ToolEnd, ToolUpdate, TurnEnd
from tau.records.messages import Assistant, Text, ToolCall, ToolResult
from tau.runtime.abort import AbortSignal
from tau.runtime.runs.driver import run_agent
from tau.runtime.runs.result_queue import RESULT_QUEUE_LIMIT
from tau.tools.partial_result import CancelledWithResult

LS, CAT = call("ls", path="."), call("cat")
ABORTED = assistant(stop="aborted", why="Request was aborted.")


def returning(text: str) -> Tool:
    async def tool(arguments: dict[str, Any], progress: Callable[[Outcome], None]) -> Outcome:
        return ok(text)

    return tool


def raising(error: BaseException) -> Tool:
    async def tool(arguments: dict[str, Any], progress: Callable[[Outcome], None]) -> Outcome:
        raise error

    return tool


class Waiting:
    """A tool that waits until it is stopped, and can be waited for. `stop` is what it raises then."""

    def __init__(self, stop: Callable[[], BaseException] = asyncio.CancelledError, stubborn: bool = False) -> None:
        self.running = asyncio.Event()
        self.free = asyncio.Event()
        self._stop = stop
        self._stubborn = stubborn

    async def __call__(self, arguments: dict[str, Any], progress: Callable[[Outcome], None]) -> Outcome:
        self.running.set()
        while not self.free.is_set():
            try:
                await self.free.wait()
            except asyncio.CancelledError:
                if not self._stubborn:
                    raise self._stop() from None
        return ok("late")

    async def flip(self, switch: AbortSignal) -> None:
        await self.running.wait()
        switch.abort()


def silent_after(waiting: Waiting, *pieces: str) -> Callable[[Draft], AsyncIterator[Sequence[Any]]]:
    """A model that says these pieces and then nothing more."""

    async def answer(draft: Draft) -> AsyncIterator[Sequence[Any]]:
        yield [draft.begin(), draft.open("text")]
        for piece in pieces:
            yield [draft.add(0, piece)]
        await waiting({}, lambda outcome: None)

    return answer


def result(called: ToolCall, text: str, details: Any = None) -> ToolResult:
    """A result; those with details are errors."""
    if details is None:
        return ToolResult(called.id, called.name, [Text(text)])
    return ToolResult(called.id, called.name, [Text(text)], details, True)


# Playing.


def test_a_run_is_played_to_its_end() -> None:
    told = play(agent_run([user("hi")]), Stage([speaks("I look", LS), speaks("done")], {"ls": returning("a b")}))
    assert told.end is not None
    assert told.end.messages == [user("hi"), assistant("I look", LS), result(LS, "a b"), assistant("done")]
    assert told.asked == [[user("hi")], told.end.messages[:3]]
    assert told.ran == [("ls", {"path": "."})]
    assert told.did == [
        *("agent_start", "turn_start", "message_start", "message_end"),
        *("message_start", *["message_update"] * 6, "message_end"),
        *("tool_execution_start", "tool_execution_end", "message_start", "message_end", "turn_end"),
        *("turn_start", "message_start", *["message_update"] * 3, "message_end", "turn_end", "agent_end"),
    ]


def test_an_unknown_tool_is_not_run() -> None:
    told = play(agent_run([]), Stage([speaks(LS), speaks("sorry")]))
    assert told.ran == []
    assert told.all(TurnEnd)[0].tool_results == [result(LS, "Tool ls not found", {})]


@pytest.mark.parametrize(
    ("error", "text"),
    [(ToolError("no such file"), "no such file"), (ValueError("oops"), "ValueError: oops")],
)
def test_a_tool_that_raises_is_a_result_that_the_model_reads(error: Exception, text: str) -> None:
    told = play(agent_run([]), Stage([speaks(LS), speaks("sorry")], {"ls": raising(error)}))
    assert told.asked[1][-1] == result(LS, text, {})


def test_tools_of_a_parallel_batch_run_at_the_same_time() -> None:
    both = asyncio.Barrier(2)

    async def meet(arguments: dict[str, Any], progress: Callable[[Outcome], None]) -> Outcome:
        await both.wait()
        return ok("met")

    told = play(agent_run([], parallel=True), Stage([speaks(LS, CAT), speaks("x")], {"ls": meet, "cat": meet}))
    assert told.all(TurnEnd)[0].tool_results == [result(LS, "met"), result(CAT, "met")]


def test_progress_reaches_the_client_and_replaces_undelivered_progress() -> None:
    async def tool(arguments: dict[str, Any], progress: Callable[[Outcome], None]) -> Outcome:
        progress(ok("a"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for text in ("ab", "abc", "abcd"):
            progress(ok(text))
        return ok("abcde")

    told = play(agent_run([]), Stage([speaks(LS), speaks("x")], {"ls": tool}))
    assert [update.partial_result for update in told.all(ToolUpdate)] == [ok("a"), ok("abcd")]


def test_what_waits_in_the_queues_is_taken() -> None:
    queued = {"steer": [[], [user("and")]], "follow_up": [[user("later")]]}
    told = play(
        agent_run([user("hi")]),
        Stage([speaks("a"), speaks("b"), speaks("c")]),
        take_queued=lambda queue: queued[queue].pop(0) if queued[queue] else [],
    )
    assert [messages[-1] for messages in told.asked] == [user("hi"), user("and"), user("later")]


# Failing.


def test_a_failed_answer_keeps_what_came_and_says_whether_to_try_again() -> None:
    failures: list[MessageFailed] = []

    def will_retry(failure: MessageFailed) -> bool:
        failures.append(failure)
        return True

    error = ModelError("529 overloaded", transient=True, retry_after_ms=7)
    told = play(agent_run([]), Stage([breaks(error, "half")]), will_retry=will_retry)
    failed = MessageFailed(assistant("half", why="529 overloaded"), True, 7)
    assert failures == [failed]
    assert told.all(AgentEnd) == [AgentEnd([failed.message], will_retry=True)]
    assert told.did[-4:] == ["message_update", "message_end", "turn_end", "agent_end"]


def test_a_bug_in_a_model_call_ends_the_answer_and_is_not_retried() -> None:
    told = play(agent_run([]), Stage([breaks(ValueError("oops"), "half")]))
    assert told.end is not None
    assert told.end.ending == MessageFailed(assistant("half", why="ValueError: oops"), False)


def test_an_answer_that_just_ends_is_a_failure() -> None:
    async def nothing(draft: Draft) -> AsyncIterator[Sequence[Any]]:
        yield [draft.begin()]

    told = play(agent_run([]), Stage([nothing]))
    assert told.end is not None and told.end.ending.message.stop_reason == "error"


def test_a_tool_whose_own_work_was_cancelled_has_failed() -> None:
    stage = Stage([speaks(LS), speaks("sorry")], {"ls": raising(asyncio.CancelledError())})
    told = play(agent_run([]), stage)
    assert [end.is_error for end in told.all(ToolEnd)] == [True]


def test_a_model_call_whose_own_work_was_cancelled_has_failed() -> None:
    told = play(agent_run([]), Stage([breaks(asyncio.CancelledError())]))  # type: ignore[arg-type]
    assert told.end is not None and told.end.ending.message.stop_reason == "error"


def test_a_model_call_that_cannot_report_its_end_is_reported_although_no_model_is_selected_any_more() -> None:
    def broken(*arguments: Any, **options: Any) -> MessageFailed:
        raise ValueError("a bug")

    async def answer(draft: Draft) -> AsyncIterator[Sequence[Any]]:
        yield [draft.begin()]
        draft.fail = broken  # type: ignore[method-assign]
        stage.ports(new_draft=broken)
        raise ModelError("529 overloaded")

    stage = Stage([answer])
    told = play(agent_run([]), stage, seconds=10)
    assert told.end is not None
    assert told.end.ending.message.error_message == "Internal error: the model call broke off."


# Aborting.


def test_an_aborted_answer_keeps_what_came() -> None:
    waiting = Waiting()
    told = play(agent_run([user("hi")]), Stage([silent_after(waiting, "ha", "lf")]), during=waiting.flip)
    message = assistant("half", stop="aborted", why="Request was aborted.")
    assert told.end is not None and told.end.ending == MessageFailed(message)
    assert told.did[-4:] == ["message_update", "message_end", "turn_end", "agent_end"]


@pytest.mark.parametrize(
    ("stop", "text"),
    [
        (asyncio.CancelledError, "Operation aborted"),
        (lambda: CancelledWithResult("so far\n\nCommand aborted"), "so far\n\nCommand aborted"),
    ],
)
def test_an_aborted_tool_is_an_error_and_no_model_is_asked_again(stop: Any, text: str) -> None:
    waiting = Waiting(stop)
    told = play(agent_run([]), Stage([speaks(LS, CAT)], {"ls": waiting, "cat": returning("x")}), during=waiting.flip)
    assert told.ran == [("ls", {"path": "."})]
    assert len(told.asked) == 1
    assert told.all(TurnEnd) == [
        TurnEnd(assistant(LS, CAT), [result(LS, text, {}), result(CAT, "Operation aborted", {})]),
        TurnEnd(ABORTED, []),
    ]


def test_an_aborted_run_leaves_the_queues_alone_and_is_not_retried() -> None:
    waiting, queued = Waiting(), [[], [user("still there")]]
    told = play(
        agent_run([]),
        Stage([silent_after(waiting)]),
        during=waiting.flip,
        take_queued=lambda queue: queued.pop(0),
        will_retry=lambda failure: True,
    )
    assert queued == [[user("still there")]]
    assert [end.will_retry for end in told.all(AgentEnd)] == [False]


def test_a_run_that_is_aborted_before_it_starts_calls_no_model() -> None:
    async def main() -> Stage:
        stage, switch = Stage([speaks("no")]), AbortSignal()
        switch.abort()
        await run_agent(agent_run([user("hi")]), stage.ports(), switch)
        return stage

    told = asyncio.run(main()).told
    assert told.asked == []
    assert told.all(AgentEnd) == [AgentEnd([user("hi"), ABORTED])]


@pytest.mark.parametrize("parallel", [False, True])
def test_an_abort_is_over_within_a_second_whatever_the_tools_do(parallel: bool) -> None:
    tools = [Waiting(stubborn=True), Waiting(stubborn=True)]

    async def main() -> tuple[float, Stage]:
        stage, switch = Stage([speaks(LS, CAT)], {"ls": tools[0], "cat": tools[1]}), AbortSignal()
        run = asyncio.create_task(run_agent(agent_run([], parallel=parallel), stage.ports(), switch))
        for tool in tools if parallel else tools[:1]:
            await tool.running.wait()
        now = asyncio.get_running_loop().time
        before = now()
        switch.abort()
        await run
        took = now() - before
        for tool in tools:
            tool.free.set()
        return took, stage

    took, stage = leapt(main())
    aborted = [result(called, "Operation aborted", {}) for called in (LS, CAT)]
    assert stage.told.all(TurnEnd)[0].tool_results == aborted
    assert took < 1


def test_an_abort_is_over_within_a_second_whatever_the_model_does() -> None:
    waiting = Waiting(stubborn=True)

    async def main() -> tuple[float, Stage]:
        stage, switch = Stage([silent_after(waiting, "half")]), AbortSignal()
        run = asyncio.create_task(run_agent(agent_run([]), stage.ports(), switch))
        await waiting.running.wait()
        now = asyncio.get_running_loop().time
        before = now()
        switch.abort()
        await run
        took = now() - before
        waiting.free.set()
        return took, stage

    took, stage = leapt(main())
    message = assistant("half", stop="aborted", why="Request was aborted.")
    assert stage.told.all(AgentEnd) == [AgentEnd([message])]
    assert took < 1


@pytest.mark.parametrize("steps", range(6))
def test_an_answer_that_stops_in_the_moment_in_which_the_wait_for_it_ends_is_reported(steps: int) -> None:
    async def main(clock: Clock) -> Stage:
        running, switch = asyncio.Event(), AbortSignal()

        async def answer(draft: Draft) -> AsyncIterator[Sequence[Any]]:
            yield [draft.begin()]
            running.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                for _ in range(steps):
                    await asyncio.sleep(0)
                clock.let_pass(2)  # as if the event loop had stood still
                await asyncio.sleep(0)
                raise

        stage = Stage([answer])
        run = asyncio.create_task(run_agent(agent_run([]), stage.ports(), switch))
        await running.wait()
        switch.abort()
        await run
        return stage

    stage = played(main)
    assert stage.told.all(AgentEnd) == [AgentEnd([ABORTED])]


def test_a_cancelled_run_passes_the_cancellation_on_and_leaves_no_task_behind() -> None:
    waiting = Waiting()

    async def main() -> None:
        run = asyncio.create_task(run_agent(agent_run([]), Stage([speaks(LS)], {"ls": waiting}).ports(), AbortSignal()))
        await waiting.running.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


# A client that reads slowly.


def test_a_slow_client_makes_the_model_wait() -> None:
    said: list[str] = []

    async def talkative(draft: Draft) -> AsyncIterator[Sequence[Any]]:
        yield [draft.begin(), draft.open("text")]
        while len(said) < 4 * RESULT_QUEUE_LIMIT:
            said.append("x")
            yield [draft.add(0, "x")]
        yield draft.finish("stop")

    async def main() -> Stage:
        stage, reads = Stage([talkative]), asyncio.Event()

        async def slowly(event: Event) -> None:
            await reads.wait()
            stage.told.publish(event)

        run = asyncio.create_task(run_agent(agent_run([]), stage.ports(publish=slowly), AbortSignal()))
        for _ in range(5 * RESULT_QUEUE_LIMIT):
            await asyncio.sleep(0)
        assert len(said) < 1.1 * RESULT_QUEUE_LIMIT
        reads.set()
        await run
        return stage

    stage = asyncio.run(main())
    (answered,) = [end.message for end in stage.told.all(MessageEnd) if isinstance(end.message, Assistant)]
    assert answered.text == "".join(said)


def test_a_slow_client_is_shown_only_the_newest_of_each_tool() -> None:
    async def busy(arguments: dict[str, Any], progress: Callable[[Outcome], None]) -> Outcome:
        for at in range(1000):
            progress(ok(str(at)))
            await asyncio.sleep(0)
        done.release()
        return ok("done")

    done = asyncio.Semaphore(0)

    async def main() -> Stage:
        stage = Stage([speaks(LS, CAT), speaks("x")], {"ls": busy, "cat": busy})

        async def slowly(event: Event) -> None:
            stage.told.publish(event)
            if isinstance(event, ToolUpdate) and len(stage.told.all(ToolUpdate)) == 1:
                await done.acquire()
                await done.acquire()

        await run_agent(agent_run([], parallel=True), stage.ports(publish=slowly), AbortSignal())
        return stage

    assert len(asyncio.run(main()).told.all(ToolUpdate)) <= 5


def one_by_one(*pieces: str) -> Callable[[Draft], AsyncIterator[Sequence[Any]]]:
    """A model whose pieces come alone: the next one when the driver waits for it."""

    async def answer(draft: Draft) -> AsyncIterator[Sequence[Any]]:
        yield [draft.begin(), draft.open("text")]
        for piece in pieces:
            for _ in range(3):
                await asyncio.sleep(0)
            yield [draft.add(0, piece)]
        yield draft.finish("stop")

    return answer


def test_a_piece_that_comes_alone_is_published_by_the_model_call_itself() -> None:
    publishers: dict[str, set[str]] = {}

    def publish(event: Event | Update) -> None:
        task = asyncio.current_task()
        assert task is not None
        publishers.setdefault(type(event).__name__, set()).add(task.get_coro().__qualname__)

    play(agent_run([user("hi")]), Stage([one_by_one("a", "b", "c")]), publish=publish)
    assert publishers["MessageEnd"] == {"run_agent"}
    assert "Driver._spawn.<locals>.safely" in publishers["Update"]


def test_a_slow_reader_of_one_piece_gets_all_pieces_in_order() -> None:
    published: list[str] = []

    async def slowly(event: Event | Update) -> None:
        for _ in range(10):
            await asyncio.sleep(0)
        published.append(event.delta.delta if isinstance(event, Update) and event.weight else type(event).__name__)

    play(agent_run([user("hi")]), Stage([one_by_one("a", "b", "c", "d")]), publish=slowly)
    assert [each for each in published if len(each) == 1] == ["a", "b", "c", "d"]
    assert published[-4:] == ["Update", "MessageEnd", "TurnEnd", "AgentEnd"]


def test_a_piece_that_cannot_be_published_breaks_the_run_and_not_the_answer() -> None:
    def publish(event: Event | Update) -> None:
        if isinstance(event, Update) and event.weight:
            raise ConnectionError("the client is broken")

    with pytest.raises(ExceptionGroup) as raised:
        play(agent_run([user("hi")]), Stage([one_by_one("a", "b")]), publish=publish)
    assert raised.group_contains(ConnectionError, match="the client is broken")


def test_an_answer_that_never_waits_can_be_aborted() -> None:
    published = 0

    async def endless(draft: Draft) -> AsyncIterator[Sequence[Any]]:
        yield [draft.begin(), draft.open("text")]
        await asyncio.sleep(0)
        while published < 100 * RESULT_QUEUE_LIMIT:
            yield [draft.add(0, "x")]
        yield draft.finish("stop")

    def publish(event: Event | Update) -> None:
        nonlocal published
        published += 1

    async def abort(signal: AbortSignal) -> None:
        while published < RESULT_QUEUE_LIMIT // 2:
            await asyncio.sleep(0)
        signal.abort()

    told = play(agent_run([user("hi")]), Stage([endless]), during=abort, publish=publish)
    assert told.end is not None and told.end.ending.message.stop_reason == "aborted"


def test_a_call_that_cannot_be_checked_is_not_run_and_has_a_result() -> None:
    class Unchecked(Stage):
        async def check(self, call: ToolCall) -> Any:
            raise OSError(24, "Too many open files")

    told = play(agent_run([]), Unchecked([speaks(LS), speaks("sorry")], {"ls": returning("ran")}))
    assert told.ran == []
    assert told.asked[1][-1] == result(LS, "OSError: [Errno 24] Too many open files", {})
