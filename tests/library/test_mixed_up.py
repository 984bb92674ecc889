"""Async and sync mixed up: one sentence that says what to write. Copies, pickles and `hasattr` work as ever."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tau
import tau.sync
from support.library_agent import opened, play, says

OPEN = (
    "tau.open is async: `async with tau.open(...) as agent`. Without an event loop: `with tau.sync.open(...) as agent`."
)


def test_an_agent_that_is_not_open_yet_says_how_to_open_it(tmp_path: Path) -> None:
    opening: Any = opened(tmp_path)
    with pytest.raises(AttributeError, match=re.escape(f"prompt is a member of the agent. {OPEN}")):
        opening.prompt("hello")
    with pytest.raises(TypeError, match=re.escape(OPEN)), opening:
        pass


def test_a_run_that_is_not_awaited_says_so(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, says("hello")) as agent:
            run: Any = agent.prompt("hello")
            for name in ("text", "output", "ok", "raise_for_status"):
                with pytest.raises(AttributeError, match=rf"{name} is in the result\. Await the run first: `result = "):
                    getattr(run, name)
            assert (await run).text == "hello"

    play(story())


def test_a_synchronous_agent_in_an_async_with_is_closed_and_says_what_to_write(tmp_path: Path) -> None:
    async def story() -> None:
        agent: Any = tau.sync.Agent(opened(tmp_path))
        with pytest.raises(TypeError, match=r"with tau\.sync\.open\(\.\.\.\) as agent`.*async with tau\.open"):
            async with agent:
                pass
        assert agent.closed

    play(story())


def test_a_loop_over_a_result_is_told_of_stream(tmp_path: Path) -> None:
    with tau.sync.Agent(opened(tmp_path)) as agent:
        result: Any = agent.prompt("hello")
        with pytest.raises(TypeError, match=r"for event in agent\.stream\(\.\.\.\)"):
            for _ in result:
                pass


@pytest.mark.parametrize(
    "create",
    [lambda agent: agent("anthropic:claude-sonnet-4-5"), lambda agent: agent(model="demo"), lambda agent: agent()],
)
def test_an_agent_is_not_created_but_opened(create: Callable[[Any], object]) -> None:
    with pytest.raises(tau.UsageError, match=re.escape("tau.open(model=...)")):
        create(tau.Agent)
    assert next(iter(inspect.signature(tau.Agent).parameters)) == "handle"


def test_a_synchronous_agent_is_not_created_but_opened() -> None:
    with pytest.raises(tau.UsageError, match=re.escape("tau.sync.open(model=...)")):
        tau.sync.Agent("demo")  # type: ignore[arg-type]


def test_everything_else_looks_at_them_as_ever(tmp_path: Path) -> None:
    opening: Any = tau.open(tmp_path, model="demo")
    assert repr(copy.copy(opening)) == repr(copy.deepcopy(opening)) == repr(opening)
    assert repr(pickle.loads(pickle.dumps(opening))) == repr(opening)
    assert not any(hasattr(opening, name) for name in ("prompt", "nothing", "__len__", "_nothing", "__iter__"))
    assert inspect.isawaitable(opening) and not callable(opening)
    assert dict(inspect.getmembers(opening))["model"] == "demo"
    with pytest.raises(AttributeError, match=r"^'Opening' object has no attribute 'modle'"):
        _ = opening.modle

    async def story() -> None:
        async with opened(tmp_path) as agent:
            run: Any = agent.prompt("hello")
            assert not any(hasattr(run, name) for name in ("text", "nothing", "__len__", "_nothing"))
            with pytest.raises(AttributeError, match=r"^'Run' object has no attribute 'txt'"):
                _ = run.txt
            assert dict(inspect.getmembers(run))["done"] is False
            result = await run
            assert pickle.loads(pickle.dumps(copy.deepcopy(result))) == result

    play(story())
