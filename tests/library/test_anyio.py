"""Cancel scopes of anyio, which cancel a task in every turn of the loop until it has left them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import anyio
import pytest

import tau
from support.library_agent import HANGS, calls, opened, play, says
from tau import events

SLOW = calls("bash", command="trap 'sleep 0.2; touch stopped' TERM INT; sleep 30 & wait")


@pytest.mark.parametrize("iterate", [False, True], ids=["await", "async for"])
@pytest.mark.parametrize("answer", [HANGS, SLOW], ids=["answer", "tool"])
def test_the_run_has_stopped_when_the_scope_ends(iterate: bool, answer: dict[str, object], tmp_path: Path) -> None:
    async def story() -> tuple[bool, bool, str | None, str]:
        async with opened(tmp_path, answer, says("again")) as agent:
            run = agent.prompt("go")
            with anyio.CancelScope() as scope:

                def end(event: tau.Event) -> None:
                    if isinstance(event, events.MessageUpdate | events.ToolStart):
                        scope.cancel()

                unsubscribe = agent.subscribe(end)
                if iterate:
                    async for _ in run:
                        pass
                else:
                    await run
            unsubscribe()
            busy = agent.is_busy
            return scope.cancelled_caught, busy, (await run).stop_reason, (await agent.prompt("next")).text

    assert play(story()) == (True, False, "aborted", "again")


def test_a_task_group_that_is_cancelled_ends_when_the_run_has_stopped(tmp_path: Path) -> None:
    async def story() -> tuple[bool, str]:
        async with opened(tmp_path, HANGS, says("again")) as agent:
            async with anyio.create_task_group() as group:

                async def work() -> None:
                    await agent.prompt("go")

                group.start_soon(work)
                async for event in agent.events():
                    if isinstance(event, events.MessageUpdate):
                        break
                group.cancel_scope.cancel()
            return agent.is_busy, (await agent.prompt("next")).text

    assert play(story()) == (False, "again")


def test_closing_in_a_scope_that_was_cancelled_does_not_keep_the_loop_busy(tmp_path: Path) -> None:
    async def story() -> tuple[bool, int]:
        agent = await opened(tmp_path, SLOW)
        async for event in agent.prompt("go"):
            if isinstance(event, events.ToolStart):
                break
        task = asyncio.current_task()
        assert task is not None
        with anyio.CancelScope() as scope:
            scope.cancel()
            try:
                await agent.close()
            finally:
                times = task.cancelling()
        return agent.closed, times

    closed, times = play(story())
    assert closed and times <= 2
