"""Cancelling a task that waits for a run aborts the run, unless the prompt was sent with abort_on_cancel=False."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import tau
from support.library_agent import HANGS, calls, opened, play, says
from tau import events


def test_a_timeout_around_a_prompt_aborts_it(tmp_path: Path) -> None:
    async def story() -> tuple[bool, str, bool]:
        async with opened(tmp_path, HANGS, says("again")) as agent:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(None) as limit:

                    def expire(event: tau.Event) -> None:
                        if isinstance(event, events.MessageUpdate):
                            limit.reschedule(0)

                    unsubscribe = agent.subscribe(expire)
                    await agent.prompt("go")
            unsubscribe()
            busy = agent.is_busy
            return busy, (await agent.prompt("next")).text, (await agent.prompt("and")).ok

    assert play(story()) == (False, "again", True)


def test_a_tool_is_stopped_by_a_timeout_around_its_prompt(tmp_path: Path) -> None:
    async def story() -> tuple[bool, bool]:
        done = tmp_path / "work" / "done"
        slow = calls("bash", command="sleep 30; touch done")
        async with opened(tmp_path, slow, says("done")) as agent:
            run = agent.prompt("go")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(run, 0.3)
            return done.exists(), (await run).ok

    assert play(story()) == (False, False)


def test_the_result_of_a_run_that_a_cancellation_aborted_can_still_be_read(tmp_path: Path) -> None:
    async def story() -> tau.Result[None]:
        async with opened(tmp_path, HANGS) as agent:
            run = agent.prompt("go")
            task = asyncio.ensure_future(wait(run))
            async for event in run:
                if isinstance(event, events.MessageUpdate):
                    task.cancel()
            return await run

    result = play(story())
    assert (result.stop_reason, result.text) == ("aborted", "for ")


async def wait(run: tau.Run[None]) -> None:
    await run


def test_a_cancelled_reader_aborts_the_run(tmp_path: Path) -> None:
    async def story() -> tuple[bool, str | None]:
        async with opened(tmp_path, HANGS) as agent:
            run = agent.prompt("go")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    async for _ in run:
                        pass
            return agent.is_busy, (await run).stop_reason

    assert play(story()) == (False, "aborted")


def test_a_run_continues_with_abort_on_cancel_false(tmp_path: Path) -> None:
    async def story() -> tuple[str, list[str]]:
        slow = calls("bash", command="sleep 0.3; echo slept")
        async with opened(tmp_path, slow, says("done"), session=True) as agent:
            run = agent.prompt("go", abort_on_cancel=False)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await run
            result = await run
            file = agent.session_file
        assert file is not None
        async with opened(tmp_path, session=file) as again:
            return result.text, [type(message).__name__ for message in again.messages()]

    assert play(story()) == ("done", ["User", "Assistant", "ToolResult", "Assistant"])


def test_a_cancelled_message_does_not_abort_the_run_that_it_joined(tmp_path: Path) -> None:
    async def story() -> list[str]:
        slow = calls("bash", command="sleep 0.3")
        async with opened(tmp_path, slow, says("one"), says("two")) as agent:
            first = agent.prompt("go").start()
            async for event in first:
                if isinstance(event, events.ToolStart):
                    break
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await agent.prompt("and?", while_busy="follow_up")
            await first
            return [message.text for message in agent.messages() if isinstance(message, events.Assistant)][1:]

    assert play(story()) == ["one", "two"]


def test_a_prompt_that_is_cancelled_in_a_hook_is_not_sent(tmp_path: Path) -> None:
    async def story() -> tuple[int, bool]:
        entered = asyncio.Event()

        async def slow(event: dict[str, object]) -> None:
            entered.set()
            await asyncio.sleep(20)

        async with opened(tmp_path, hooks={"input": slow}) as agent:
            task = asyncio.ensure_future(wait(agent.prompt("go")))
            await entered.wait()
            task.cancel()
            await asyncio.wait([task])
            return agent.state.message_count, task.cancelled()

    assert play(story()) == (0, True)


def test_a_program_that_ends_with_a_prompt_in_another_task_prints_nothing(tmp_path: Path) -> None:
    program = """
import asyncio
import tau

async def main():
    script = [{"blocks": [{"text": ["for ", "ever"]}], "hangAfter": 1}]
    async with tau.open(session=False, script=script, find_extensions=False) as agent:
        async def ask():
            await agent.prompt("go")
        task = asyncio.create_task(ask())
        async for event in agent.events():
            if type(event).__name__ == "MessageUpdate":
                break
        raise SystemExit(0)

asyncio.run(main())
"""
    env = {"HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=env, text=True, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_ctrl_c_aborts_the_run_of_the_synchronous_agent_which_takes_the_next_prompt(tmp_path: Path) -> None:
    program = """
import tau.sync
script = [{"blocks": [{"text": ["for ", "ever"]}], "hangAfter": 1}, {"text": "again"}]
with tau.sync.open(session=False, script=script, find_extensions=False) as agent:
    agent.subscribe(lambda event: print("started", flush=True) if type(event).__name__ == "MessageUpdate" else None)
    try:
        agent.prompt("go")
    except KeyboardInterrupt:
        print(agent.is_busy, agent.messages()[-1].stop_reason)
    print(agent.prompt("once more").text)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program], cwd=tmp_path, env={"HOME": str(tmp_path)}, text=True, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert [line for line in out.splitlines() if line != "started"] == ["False aborted", "again"]
