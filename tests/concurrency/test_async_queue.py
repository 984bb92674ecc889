from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tau.concurrency.async_queue import AsyncQueue


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(20):
            await main()

    asyncio.run(limited())


async def until_it_waits(task: asyncio.Task[object]) -> None:
    """Let the task run until only another task can let it go on."""
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done()


def test_items_come_out_in_order_one_by_one_or_all_at_once() -> None:
    async def main() -> None:
        queue = AsyncQueue[int]()
        queue.put(1, 2, 3)
        assert await queue.ready()
        assert (queue.take(), queue.take_all(), queue.take_all(), len(queue)) == (1, [2, 3], [], 0)
        with pytest.raises(IndexError):
            queue.take()

    run(main)


def test_a_reader_waits_for_an_item() -> None:
    async def main() -> None:
        queue = AsyncQueue[int]()
        queue.put(0)
        queue.take()  # what was put and taken before does not count
        reader = asyncio.create_task(queue.ready())
        await until_it_waits(reader)
        queue.put(1)
        assert (await reader, queue.take()) == (True, 1)

    run(main)


def test_put_ignores_the_limit_and_room_returns_when_the_queue_is_empty() -> None:
    async def main() -> None:
        queue = AsyncQueue[int](limit=2)
        queue.put(1)
        await queue.room()
        assert not queue.full
        queue.put(2, 3)
        assert (queue.full, len(queue)) == (True, 3)
        producer = asyncio.create_task(queue.room())
        queue.take()
        queue.take()
        assert not queue.full
        await until_it_waits(producer)  # there is one item left
        queue.take()
        await producer

    run(main)


@pytest.mark.parametrize("empty", [AsyncQueue.take_all, AsyncQueue.discard, AsyncQueue.close])
def test_a_producer_that_waits_goes_on(empty: Callable[[AsyncQueue[int]], object]) -> None:
    async def main() -> None:
        queue = AsyncQueue[int](limit=1)
        queue.put(1)
        producer = asyncio.create_task(queue.room())
        await until_it_waits(producer)
        empty(queue)
        await producer

    run(main)


def test_a_closed_queue_ends_after_its_items_and_drops_later_ones() -> None:
    async def main() -> None:
        queue, error = AsyncQueue[int](limit=1), ValueError("the producer failed")
        queue.put(1)
        queue.close(error)
        queue.close()
        queue.put(2)
        assert (await queue.ready(), queue.full, queue.take()) == (True, False, 1)
        assert (await queue.ready(), queue.closed, queue.error) == (False, True, error)
        assert not await queue.ready()

    run(main)


def test_closing_ends_every_wait() -> None:
    async def main() -> None:
        queue = AsyncQueue[int]()
        readers = [asyncio.create_task(queue.ready()) for _ in range(2)]
        await until_it_waits(readers[1])
        queue.close()
        assert await asyncio.gather(*readers) == [False, False]

    run(main)


def test_a_wait_for_a_change_can_be_woken_without_an_item() -> None:
    async def main() -> None:
        queue = AsyncQueue[int]()
        reader = asyncio.create_task(queue.changed())
        await until_it_waits(reader)
        queue.wake()
        await reader
        still = asyncio.create_task(queue.ready())
        await until_it_waits(still)
        queue.wake()
        await until_it_waits(still)  # there is no item
        queue.put(1)
        assert await still

    run(main)


def test_a_cancelled_wait_takes_nothing() -> None:
    async def main() -> None:
        queue = AsyncQueue[int]()
        reader = asyncio.create_task(queue.ready())
        await until_it_waits(reader)
        queue.put(1)
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        assert (await queue.ready(), queue.take()) == (True, 1)

    run(main)
