"""What the tests of the library share: an agent in fresh folders, on the scripted model."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import tau
from tau.library.opening import Opening

T = TypeVar("T")
Json = dict[str, Any]
WITHIN = 60.0  # seconds for whatever has no figure of its own; only a failure takes it all


def play(story: Coroutine[Any, Any, T]) -> T:
    """Run it to its end, in a loop of its own, and see that it leaves no task behind."""

    async def bounded() -> T:
        async with asyncio.timeout(WITHIN):
            told = await story
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return told

    return asyncio.run(bounded())


def opened(folder: Path, *answers: Json, **wanted: Any) -> Opening:
    """`answers` is what the model says; "ok" to everything if nothing is given. In memory, unless it is said."""
    for name in ("work", "agent"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    usual: Json = {
        "cwd": folder / "work",
        "agent_dir": folder / "agent",
        "session": False,
        "script": answers or [{"text": "ok"}],
        "env": {"PATH": os.environ["PATH"], "HOME": str(folder)},
    }
    return tau.open(**{**usual, **wanted})


def says(*pieces: str) -> Json:
    return {"blocks": [{"text": list(pieces)}]}


def calls(tool: str, /, **arguments: Any) -> Json:
    return {"blocks": [{"tool": tool, "arguments": arguments}]}


HANGS: Json = {"blocks": [{"text": ["for ", "ever"]}], "hangAfter": 1}


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


OTHERS: set[str] = set()  # processes of other tests that run in this one


def children_left(within: float = 20.0) -> list[str]:
    """Children that have not ended after so many seconds: on a loaded machine, closing may not wait for their end."""
    deadline = time.monotonic() + within
    while (left := children()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return left


def children() -> list[str]:
    found = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [one for one in found if one not in OTHERS]
