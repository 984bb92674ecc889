from __future__ import annotations

import asyncio

from tau.runtime.abort import Switch


def test_flipping_stops_the_work_under_the_switch_and_nothing_else() -> None:
    async def main() -> list[bool]:
        switch = Switch()
        watched, other = (asyncio.create_task(asyncio.Event().wait()) for _ in range(2))
        switch.watch(watched)
        switch.flip()
        await asyncio.wait([watched])
        found = [switch.flipped, watched.cancelled(), other.done()]
        other.cancel()
        return found

    assert asyncio.run(main()) == [True, True, False]


def test_work_that_comes_too_late_is_stopped_at_once() -> None:
    async def main() -> bool:
        switch = Switch()
        switch.flip()
        task = asyncio.create_task(asyncio.Event().wait())
        switch.watch(task)
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(main())


def test_work_that_is_done_is_let_go() -> None:
    async def main() -> str:
        switch = Switch()
        task = asyncio.create_task(asyncio.sleep(0, "done"))
        switch.watch(task)
        await task
        switch.flip()
        return task.result()

    assert asyncio.run(main()) == "done"


def test_listeners_hear_the_flip() -> None:
    heard: list[str] = []
    switch = Switch()
    switch.listen(lambda: heard.append("a"))
    switch.listen(lambda: heard.append("b"))
    switch.flip()
    assert heard == ["a", "b"]


def test_a_wait_ends_with_its_time_or_with_the_flip() -> None:
    async def main() -> list[bool]:
        switch = Switch()
        over = await switch.wait(0)
        waiting = asyncio.create_task(switch.wait(60))
        await asyncio.sleep(0)
        switch.flip()
        return [over, await waiting, await switch.wait(60)]

    assert asyncio.run(main()) == [False, True, True]
