"""An agent leaves nothing behind, whatever happens to it and to whoever waits for it."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import tau
from support.library_agent import HANGS, calls, children, descriptors, opened, play, says
from tau import events
from tau.library.opening import Opening

WORK = (calls("bash", command="echo $((40 + 2))"), calls("add", a=1, b=2), says("done"))


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def kilobytes() -> int:
    """Our part of the memory, the shared by halves and so on."""
    gc.collect()
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


async def worked(folder: Path, number: int) -> tau.Agent:
    agent = await opened(folder / str(number), *WORK, tools=["bash", add], session=True)
    result = await agent.prompt(f"number {number}")
    told = [block.text for message in result.messages for block in content(message)]
    assert told == [f"number {number}", "42\n", "3", "done"], told
    return agent


def content(message: Any) -> list[events.Text]:
    return [block for block in message.content if isinstance(block, events.Text)]


def test_forty_agents_in_one_process_are_all_right_and_small_and_leave_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        await (await worked(tmp_path, 0)).close()
        before = descriptors()
        first = await worked(tmp_path, 1)
        base = kilobytes()
        others = await asyncio.gather(*(worked(tmp_path, number) for number in range(2, 41)))
        assert (kilobytes() - base) / len(others) < 3 * 1024
        assert len(children()) == 1  # the tool runner, which they share
        assert len({agent.session_id for agent in [first, *others]}) == 40
        await asyncio.gather(*(agent.close() for agent in [first, *others]))
        # What other tests of this process leave for a moment may go or come meanwhile; forty agents would show.
        assert descriptors() < before + 10
        assert children() == []

    threads = threading.active_count()
    play(story())
    assert threading.active_count() < threads + 10


def test_agents_share_no_state(tmp_path: Path) -> None:
    async def story() -> tuple[str, str, list[str], list[str]]:
        where = calls("bash", command="pwd; echo $WHO")

        def one(name: str) -> Opening:
            return opened(tmp_path / name, where, says(name), env={"WHO": name, "PATH": os.environ["PATH"]})

        async with one("a") as a, one("b") as b:
            await a.set_thinking("low")
            results = await asyncio.gather(a.prompt("?"), b.prompt("?"))
            said = [content(result.messages[2])[0].text.split() for result in results]
            return a.thinking, b.thinking, *said

    here = os.getcwd()
    assert play(story()) == ("low", "medium", [str(tmp_path / "a" / "work"), "a"], [str(tmp_path / "b" / "work"), "b"])
    assert os.getcwd() == here


def test_nothing_of_the_process_is_changed(tmp_path: Path) -> None:
    def known() -> Any:
        handlers = [signal.getsignal(number) for number in signal.valid_signals()]
        return handlers, os.getcwd(), dict(os.environ), os.fstat(0).st_ino, os.fstat(1).st_ino, gc.get_threshold()

    async def story() -> None:
        before = known()
        async with opened(tmp_path, *WORK, tools=["bash", add]) as agent:
            assert known() == before
            await agent.prompt("go")
            assert known() == before
        assert known() == before

    play(story())


def test_a_caller_that_is_cancelled_at_any_moment_leaves_a_session_that_can_be_opened(tmp_path: Path) -> None:
    async def story() -> None:
        for moment in range(25):
            folder = tmp_path / str(moment)
            agent = await opened(folder, calls("bash", command="echo hi"), says("done"), session=True)

            async def ask(agent: tau.Agent = agent) -> None:
                await agent.prompt("go")

            task = asyncio.ensure_future(ask())
            for _ in range(moment):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            file = agent.session_file
            await agent.close()
            assert file is not None
            if file.exists():
                async with opened(folder, says("more"), session=file) as again:
                    assert again.warnings == []
                    assert (await again.prompt("and?")).text == "more"

    play(story())


def test_abort_ends_the_run_and_the_agent_continues(tmp_path: Path) -> None:
    async def story() -> tuple[str | None, str]:
        async with opened(tmp_path, calls("bash", command="sleep 60"), says("fine")) as agent:
            run = agent.prompt("go").start()
            async for event in run:
                if isinstance(event, events.ToolStart):
                    break
            await agent.abort()
            return (await run).stop_reason, (await agent.prompt("again")).text

    assert play(story()) == ("aborted", "fine")


@pytest.mark.parametrize("answer", [HANGS, calls("bash", command="sleep 60"), calls("stuck"), calls("deaf")])
def test_closing_during_a_run_aborts_it_and_takes_seconds(answer: Any, tmp_path: Path) -> None:
    ended = asyncio.Event()

    async def stuck() -> None:
        """Wait."""
        await asyncio.Event().wait()

    async def deaf() -> None:
        """Wait, whatever happens."""
        for _ in range(3):
            try:
                await asyncio.sleep(0.5)
            except asyncio.CancelledError:
                continue
        ended.set()

    async def story() -> tuple[str | None, list[str]]:
        started = asyncio.Event()
        agent = await opened(tmp_path, answer, tools=["bash", stuck, deaf], session=True)
        agent.subscribe(lambda event: started.set() if isinstance(event, events.MessageUpdate) else None)
        run = agent.prompt("go").start()
        await started.wait()
        async with asyncio.timeout(10):
            await agent.close()
        if answer == calls("deaf"):  # it is left, and ends when it likes
            await ended.wait()
        with pytest.raises(tau.CommandError, match=r"^The agent was closed\.$"):
            agent.prompt("more")
        return (await run).stop_reason, children()

    assert play(story()) == ("aborted", [])


def test_closing_goes_on_when_its_caller_is_cancelled(tmp_path: Path) -> None:
    async def story() -> bool:
        agent = await opened(tmp_path, HANGS)
        run = agent.prompt("go").start()
        async for _ in run:
            break
        closing = asyncio.ensure_future(agent.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
        return closing.cancelled() and (await run).stop_reason == "aborted" and agent.closed

    assert play(story())


def test_to_close_twice_is_to_close_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as agent:
            await asyncio.gather(agent.close(), agent.close())

    play(story())


def test_streams_of_events_end_with_the_agent(tmp_path: Path) -> None:
    async def story() -> list[str]:
        async with opened(tmp_path) as agent:
            stream = agent.events()
            await agent.prompt("go")
        return [events.type_of(event) async for event in stream]

    assert play(story())[-1] == "agent_settled"


def test_two_loops_in_two_threads_each_have_their_agent(tmp_path: Path) -> None:
    came: dict[str, str] = {}

    def life(name: str) -> None:
        async def story() -> None:
            for turn in range(3):
                echo = calls("bash", command=f"echo {name}")
                async with opened(tmp_path / f"{name}{turn}", echo, says(name)) as agent:
                    result = await agent.prompt("go")
                    came[f"{name}{turn}"] = content(result.messages[2])[0].text.strip() + result.text

        play(story())

    threads = [threading.Thread(target=life, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert came == {f"{name}{turn}": 2 * name for name in "ab" for turn in range(3)}
    assert children() == []


def test_an_agent_of_another_loop_says_so(tmp_path: Path) -> None:
    async def make() -> tau.Run:
        agent = await opened(tmp_path)
        run = agent.prompt("go")
        await agent.close()
        return run

    run = play(make())

    async def elsewhere() -> None:
        with pytest.raises(tau.CommandError, match="another event loop"):
            await run
        run.__dict__["_task"] = asyncio.current_task()  # or it would complain that it was never awaited

    play(elsewhere())


def test_a_session_that_another_has_is_not_to_be_had(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, session=True) as agent:
            await agent.prompt("go")
            before = descriptors()
            for _ in range(10):
                with pytest.raises(tau.CommandError, match="is in use"):
                    await opened(tmp_path, session=agent.session_file)
            while descriptors() > before + 5:  # the file of the first may just be synced, and the loop has its own
                await asyncio.sleep(0.01)

    play(story())


# Closing while something is begun.


async def stepped(count: int) -> None:
    """Let the loop go round this often: what happens in between is the same on a fast machine and on a slow one."""
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 5, 8, 13, 21, 34])
def test_a_command_begun_while_the_agent_closes_leaves_no_task_and_writes_nothing(tmp_path: Path, steps: int) -> None:
    async def story() -> None:
        async with opened(tmp_path, session=True) as agent:
            await agent.prompt("hi")
            file = agent.session_file
            running = asyncio.create_task(agent.bash("echo hi; sleep 100"))
            await stepped(steps)
        assert file is not None
        written = file.read_bytes()
        (ended,) = await asyncio.gather(running, return_exceptions=True)
        assert isinstance(ended, tau.CommandError) or ended.cancelled
        await stepped(10)
        assert file.read_bytes() == written
        assert asyncio.all_tasks() == {asyncio.current_task()}

    play(story())


def test_whatever_is_begun_while_the_agent_closes_leaves_no_task_and_writes_nothing(tmp_path: Path) -> None:
    dice, first = random.Random(7), 0

    async def one(folder: Path) -> None:
        async with opened(folder, session=True) as agent:
            await agent.prompt("hi")
            other = agent.session_file
            await agent.new_session()
            await agent.prompt("ho")
            acts: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
                "bash": lambda: agent.bash("echo hi"),
                "long": lambda: agent.bash("sleep 100"),
                "new": agent.new_session,
                "clone": agent.clone,
                "switch": lambda: agent.switch_session(str(other)),
                "prompt": lambda: _awaited(agent.prompt("more")),
                "compact": agent.compact,
            }
            begun = []
            for name in dice.choices([*acts], k=dice.randint(1, 4)):
                begun.append(asyncio.create_task(acts[name]()))
                await stepped(dice.randint(0, 30))
        files = [*folder.rglob("*.jsonl")]
        written = [file.read_bytes() for file in files]
        await asyncio.wait(begun)
        await stepped(10)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert [file.read_bytes() for file in [*folder.rglob("*.jsonl")]] == written
        for task in begun:
            error = task.exception()
            assert error is None or isinstance(error, tau.TauError), error

    for number in range(15):  # each in a loop of its own, so that none has to be quick for the others
        play(one(tmp_path / str(number)))
        gc.collect()  # session files that were opened are closed with their last reader
        first = descriptors() if number == 0 else first
        deadline = time.monotonic() + 30
        while descriptors() > first:  # a supervisor that is ending holds its pipes a moment longer
            assert time.monotonic() < deadline
            time.sleep(0.01)


async def _awaited(run: Any) -> None:
    await run
