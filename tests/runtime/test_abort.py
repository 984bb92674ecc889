from __future__ import annotations

import asyncio

from tau.runtime.abort import AbortSignal


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
