from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any

import pytest

from tau.concurrency.async_queue import AsyncQueue
from tau.concurrency.turns import MAX_CALLS, TurnFuture, call_in_turn, run_turn


class CountingLoop(asyncio.SelectorEventLoop):
    iterations = 0

    def _run_once(self) -> None:
        self.iterations += 1
        super()._run_once()  # type: ignore[misc]


def play(story: Callable[[CountingLoop], Coroutine[Any, Any, None]]) -> None:
    loop = CountingLoop()
    try:
        loop.run_until_complete(asyncio.wait_for(story(loop), 10))
    finally:
        loop.close()


def test_a_chain_of_tasks_and_callbacks_runs_in_one_iteration() -> None:
    async def story(loop: CountingLoop) -> None:
        received, decided, done = AsyncQueue[str](), AsyncQueue[str](), asyncio.Event()
        steps: list[tuple[str, int]] = []

        async def read() -> None:
            await received.changed()
            steps.append(("read", loop.iterations))
            decided.put("decided")
            steps.append(("read on", loop.iterations))

        async def decide() -> None:
            await decided.changed()
            steps.append(("decide", loop.iterations))
            call_in_turn(loop, write)

        def write() -> None:
            steps.append(("write", loop.iterations))
            done.set()

        tasks = asyncio.create_task(read()), asyncio.create_task(decide())
        await asyncio.sleep(0)
        loop.call_soon(run_turn, loop, lambda: received.put("received"))
        await done.wait()
        await asyncio.gather(*tasks)
        assert [name for name, _ in steps] == ["read", "read on", "decide", "write"]
        assert len({iteration for _, iteration in steps}) == 1

    play(story)


def test_without_a_turn_a_callback_waits_for_the_next_iteration() -> None:
    async def story(loop: CountingLoop) -> None:
        called = list[int]()
        call_in_turn(loop, lambda: called.append(loop.iterations))
        assert called == []
        before = loop.iterations
        await asyncio.sleep(0)
        assert called == [before + 1]

    play(story)


def test_a_turn_without_end_leaves_the_rest_to_the_loop() -> None:
    async def story(loop: CountingLoop) -> None:
        count = 0

        def again() -> None:
            nonlocal count
            count += 1
            if count < 10 * MAX_CALLS:
                call_in_turn(loop, again)

        loop.call_soon(run_turn, loop, again)
        await asyncio.sleep(0)
        assert count == 1 + MAX_CALLS
        while count < 10 * MAX_CALLS:
            await asyncio.sleep(0)

    play(story)


def test_a_callback_that_fails_is_reported_and_the_turn_goes_on() -> None:
    async def story(loop: CountingLoop) -> None:
        reported: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _, context: reported.append(context))
        called = list[str]()

        def both() -> None:
            call_in_turn(loop, lambda: 1 / 0)
            call_in_turn(loop, lambda: called.append("next"))

        loop.call_soon(run_turn, loop, both)
        await asyncio.sleep(0)
        assert called == ["next"]
        assert [type(one["exception"]) for one in reported] == [ZeroDivisionError]

    play(story)


def test_a_task_that_waits_can_be_cancelled_and_times_out() -> None:
    async def story(loop: CountingLoop) -> None:
        queue = AsyncQueue[str]()
        task = asyncio.create_task(queue.changed())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await queue.changed()
        queue.wake()
        await queue.changed()

    play(story)


def test_a_task_keeps_its_context_and_a_failure_reaches_it() -> None:
    async def story(loop: CountingLoop) -> None:
        name: ContextVar[str] = ContextVar("name", default="callback")
        future = TurnFuture(loop=loop)
        seen = list[str]()

        async def wait() -> None:
            name.set("task")
            try:
                await future
            finally:
                seen.append(name.get())

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        future.fail(TimeoutError("late"))
        future.finish()  # too late as well
        with pytest.raises(TimeoutError, match="late"):
            await task
        assert seen == ["task"]

    play(story)


def test_every_task_that_waits_for_a_queue_is_resumed() -> None:
    async def story(loop: CountingLoop) -> None:
        queue = AsyncQueue[str]()
        tasks = [asyncio.create_task(queue.changed()) for _ in range(3)]
        await asyncio.sleep(0)
        loop.call_soon(run_turn, loop, queue.wake)
        await asyncio.gather(*tasks)

    play(story)


@pytest.mark.parametrize("end", [TurnFuture.finish, TurnFuture.cancel])
def test_a_future_that_is_done_is_not_kept_until_the_next_garbage_collection(end: Callable[[TurnFuture], Any]) -> None:
    async def story(loop: CountingLoop) -> None:
        future = TurnFuture(loop=loop)
        kept = weakref.ref(future)

        async def wait(waiting: list[TurnFuture]) -> None:
            await waiting.pop()

        task = loop.create_task(wait([future]))
        await asyncio.sleep(0)
        loop.call_soon(end, future)
        del future
        await asyncio.wait({task})
        del task
        assert kept() is None

    gc.disable()
    try:
        play(story)
    finally:
        gc.enable()
