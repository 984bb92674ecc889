from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from support.virtual_clock import leapt
from tau.errors import Aborted
from tau.runtime.abort import AbortSignal, until_aborted


def test_flipping_stops_the_work_under_the_switch_and_nothing_else() -> None:
    async def main() -> list[bool]:
        switch = AbortSignal()
        watched, other = (asyncio.create_task(asyncio.Event().wait()) for _ in range(2))
        switch.cancel_on_abort(watched)
        switch.abort()
        await asyncio.wait([watched])
        found = [switch.aborted, watched.cancelled(), other.done()]
        other.cancel()
        return found

    assert asyncio.run(main()) == [True, True, False]


def test_work_that_comes_too_late_is_stopped_at_once() -> None:
    async def main() -> bool:
        switch = AbortSignal()
        switch.abort()
        task = asyncio.create_task(asyncio.Event().wait())
        switch.cancel_on_abort(task)
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(main())


def test_work_that_is_done_is_let_go() -> None:
    async def main() -> str:
        switch = AbortSignal()
        task = asyncio.create_task(asyncio.sleep(0, "done"))
        switch.cancel_on_abort(task)
        await task
        switch.abort()
        return task.result()

    assert asyncio.run(main()) == "done"


def test_listeners_hear_the_flip() -> None:
    heard: list[str] = []
    switch = AbortSignal()
    switch.on_abort(lambda: heard.append("a"))
    switch.on_abort(lambda: heard.append("b"))
    switch.abort()
    assert heard == ["a", "b"]


def test_a_wait_ends_with_its_time_or_with_the_flip() -> None:
    async def main() -> list[bool]:
        switch = AbortSignal()
        over = await switch.wait(0)
        waiting = asyncio.create_task(switch.wait(60))
        await asyncio.sleep(0)
        switch.abort()
        return [over, await waiting, await switch.wait(60)]

    assert asyncio.run(main()) == [False, True, True]


# until_aborted.


async def stubborn(free: asyncio.Event) -> str:
    """Work that ignores its cancellation."""
    while not free.is_set():
        with suppress(asyncio.CancelledError):
            await free.wait()
    return "late"


def test_work_without_an_abort_returns_its_result_or_raises_its_error() -> None:
    async def fails() -> None:
        raise ValueError("oops")

    async def main() -> str:
        with pytest.raises(ValueError, match="oops"):
            await until_aborted(asyncio.create_task(fails()), AbortSignal())
        return await until_aborted(asyncio.create_task(asyncio.sleep(0, "done")), AbortSignal())

    assert asyncio.run(main()) == "done"


def test_an_abort_cancels_the_work_and_waits_for_its_end() -> None:
    async def main() -> list[str]:
        steps: list[str] = []

        async def work() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0.5)
                steps.append("stopped")

        signal, task = AbortSignal(), asyncio.create_task(work())
        asyncio.get_running_loop().call_later(5, signal.abort)
        with pytest.raises(Aborted):
            await until_aborted(task, signal, 1)
        steps.append(str(asyncio.get_running_loop().time()))
        return steps

    assert leapt(main()) == ["stopped", "5.5"]


@pytest.mark.parametrize("grace", [0, 2])
def test_work_that_does_not_stop_is_left_behind_after_the_grace(grace: float) -> None:
    async def main() -> float:
        signal, free = AbortSignal(), asyncio.Event()
        task = asyncio.create_task(stubborn(free))
        await asyncio.sleep(0)
        signal.abort()
        with pytest.raises(Aborted):
            await until_aborted(task, signal, grace)
        took = asyncio.get_running_loop().time()
        assert not task.done()
        free.set()
        assert await task == "late"
        return took

    assert leapt(main()) == pytest.approx(grace)


def test_a_cancellation_from_outside_cancels_the_work_and_is_no_abort() -> None:
    async def main() -> None:
        signal, work = AbortSignal(), asyncio.create_task(asyncio.Event().wait())
        waiting = asyncio.create_task(until_aborted(work, signal, 1))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert work.cancelled() and not signal.aborted

    leapt(main())
