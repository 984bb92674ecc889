"""Cells of a notebook: code with `await` at its top level, one after another in one loop that goes on running.

tests/long/notebook.py does this in a real IPython kernel.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from support.library_agent import calls, opened, says


class Notebook:
    """Runs cells as IPython does: compiled with top-level await, in one namespace."""

    def __init__(self, loop: asyncio.AbstractEventLoop, **names: Any) -> None:
        self._loop = loop
        self.names: dict[str, Any] = {"__name__": "__main__", **names}

    def run(self, cell: str) -> Any:
        """The value of `out` after the cell."""
        code = compile(cell, "<cell>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

        async def execute() -> None:
            value = FunctionType(code, self.names)()
            if inspect.iscoroutine(value):
                await value

        self._loop.run_until_complete(execute())
        return self.names.get("out")


CELLS: dict[str, tuple[list[str], Any]] = {
    "open, use, close": (
        ["agent = await opened()", "out = (await agent.prompt('hi')).text", "await agent.close()"],
        "ok",
    ),
    "async with": (["async with opened() as agent:\n    out = (await agent.prompt('hi')).text"], "ok"),
    "a task that goes on between cells": (
        [
            "agent = await opened()\nrun = asyncio.ensure_future(anext(aiter(agent.prompt('hi'))))",
            "await run\nawait agent.wait_idle()\nout = agent.last_text()\nawait agent.close()",
        ],
        "ok",
    ),
    "a tool of a cell": (
        [
            "def add(a: int, b: int) -> int:\n    'Add.'\n    return a + b",
            "async with opened(calls('add', a=1, b=2), says('x'), tools=[add]) as agent:\n"
            "    out = (await agent.prompt('hi')).messages[2].content[0].text",
        ],
        "3",
    ),
    "a tool with annotations as texts": (
        [
            "from __future__ import annotations\ndef first(of: list[str]) -> str:\n    'First.'\n    return of[0]",
            "async with opened(calls('first', of=['a']), says('x'), tools=[first]) as agent:\n"
            "    out = (await agent.prompt('hi')).messages[2].content[0].text",
        ],
        "a",
    ),
    "a class of a cell": (
        [
            "from dataclasses import dataclass\n@dataclass\nclass Fruit:\n    name: str",
            "async with opened(calls('return_result', name='apple'), says('x')) as agent:\n"
            "    out = (await agent.prompt('hi', output_schema=Fruit)).require_output().name",
        ],
        "apple",
    ),
    "a synchronous agent beside the loop": (
        ["agent = Agent(opened())", "out = agent.prompt('hi').text", "agent.close()"],
        "ok",
    ),
    "a synchronous agent between asynchronous cells": (
        [
            "agent = await opened()\nother = Agent(opened(says('other')))",
            "out = (await agent.prompt('hi')).text + other.prompt('hi').text",
            "await agent.close()\nother.close()",
        ],
        "okother",
    ),
}


@pytest.mark.parametrize("name", CELLS)
def test_cells_share_an_agent(tmp_path: Path, name: str) -> None:
    from tau.sync import Agent

    cells, expected = CELLS[name]
    loop = asyncio.new_event_loop()
    try:
        names = {"asyncio": asyncio, "Agent": Agent, "calls": calls, "says": says}
        notebook = Notebook(loop, opened=lambda *script, **more: opened(tmp_path, *script, **more), **names)
        found = [notebook.run(cell) for cell in cells][-1]
        assert (found, asyncio.all_tasks(loop)) == (expected, set())
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
