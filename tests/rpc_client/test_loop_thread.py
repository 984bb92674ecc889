"""Ctrl-C during a call of a synchronous façade: when the call returns, its coroutine has ended."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Iterator

import pytest

from tau.client.loop_thread import LoopThread


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.close()


MAIN = threading.main_thread().ident or 0


async def until_waited_for() -> None:
    while sys._current_frames()[MAIN].f_code is not threading.Condition.wait.__code__:
        await asyncio.sleep(0)


async def press_ctrl_c() -> None:
    await until_waited_for()
    signal.pthread_kill(MAIN, signal.SIGINT)


def test_ctrl_c_is_raised_when_the_coroutine_has_ended(loop: LoopThread) -> None:
    ended: list[bool] = []

    async def call() -> None:
        try:
            await press_ctrl_c()
            await asyncio.Event().wait()
        finally:
            await until_waited_for()
            ended.append(True)

    with pytest.raises(KeyboardInterrupt):
        loop.run(call())
    assert ended == [True]


def test_a_second_ctrl_c_does_not_wait_for_the_coroutine(loop: LoopThread) -> None:
    release = asyncio.Event()

    async def call() -> None:
        try:
            await press_ctrl_c()
            await asyncio.Event().wait()
        finally:
            await press_ctrl_c()
            await release.wait()

    async def end() -> None:
        release.set()

    with pytest.raises(KeyboardInterrupt) as raised:
        loop.run(call())
    assert isinstance(raised.value.__context__, KeyboardInterrupt)
    loop.run(end())


def test_the_wait_for_a_coroutine_that_does_not_end_is_bounded(loop: LoopThread) -> None:
    release = asyncio.Event()

    async def call() -> None:
        try:
            await press_ctrl_c()
            await asyncio.Event().wait()
        finally:
            await release.wait()

    async def end() -> None:
        release.set()

    with pytest.raises(KeyboardInterrupt) as raised:
        loop.run(call())
    assert raised.value.__context__ is None
    loop.run(end())
