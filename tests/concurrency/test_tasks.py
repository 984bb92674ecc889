from __future__ import annotations

import asyncio

import pytest

from tau.concurrency.tasks import INNER_CANCELLATION, await_foreign, cancelled_from_outside


def test_a_task_knows_if_it_was_cancelled_itself_or_only_what_it_waits_for() -> None:
    found: list[bool] = []

    async def waiting(other: asyncio.Future[None]) -> None:
        try:
            await other
        except asyncio.CancelledError:
            found.append(cancelled_from_outside())

    async def main() -> None:
        for outside in (False, True):
            other = asyncio.get_running_loop().create_future()
            task = asyncio.create_task(waiting(other))
            await asyncio.sleep(0)
            (task if outside else other).cancel()
            await asyncio.wait([task])

    asyncio.run(main())
    assert found == [False, True]


def test_without_a_task_nothing_is_cancelled() -> None:
    async def main() -> bool:
        answer = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(lambda: answer.set_result(cancelled_from_outside()))
        return await answer

    assert asyncio.run(main()) is False


def test_foreign_code_that_awaited_something_cancelled_fails_and_one_that_is_cancelled_is_cancelled() -> None:
    async def main() -> None:
        for outside in (False, True):
            other = asyncio.get_running_loop().create_future()
            task = asyncio.ensure_future(await_foreign(other))
            await asyncio.sleep(0)
            (task if outside else other).cancel()
            await asyncio.wait([task])
            assert task.cancelled() == outside
            if not outside:
                with pytest.raises(RuntimeError, match=INNER_CANCELLATION):
                    await task

    asyncio.run(main())
