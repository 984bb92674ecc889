"""Cells of a notebook in a real IPython kernel: what they print, and what stays when the kernel ends.

    pip install ipykernel nest_asyncio
    python tests/long/notebook.py [NAME ...]

Each row is a cell, or several, in one kernel; a row that ends with "interrupt" is interrupted while it waits.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

TESTS = Path(__file__).resolve().parents[1]
TIMEOUT_S = 120
FAKE = [sys.executable, str(TESTS / "rpc_client" / "fake.py")]

SETUP = f"""
import asyncio, os, sys, threading, time
from pathlib import Path
import tau, tau.sync
from tau import events
FAKE = {FAKE!r}
def opened(*script, **more):
    return tau.open(session=False, script=[*script, {{"text": "ok"}}], **more)
def opened_sync(*script, **more):
    return tau.sync.open(session=False, script=[*script, {{"text": "ok"}}], **more)
def calls(tool, **arguments):
    return {{"blocks": [{{"tool": tool, "arguments": arguments}}]}}
"""
SLEEP = 'calls("bash", command="touch started; sleep 60")'


class Row(NamedTuple):
    cells: list[str]
    printed: str = ""  # by the last cell
    error: str = ""  # of the last cell
    interrupt: bool = False  # the last cell, once the file `started` exists


ROWS: dict[str, Row] = {
    "top-level await": Row(["async with opened() as a:\n    print(await a.prompt('hi'))"], "ok\n"),
    "an agent of an earlier cell": Row(
        ["a = await opened()", "print(await a.prompt('hi'))", "await a.close()\nprint(a.closed)"], "True\n"
    ),
    "a result is shown": Row(
        ["async with opened() as a:\n    r = await a.prompt('hi')\nprint(repr(r)[:6])"], "Result\n"
    ),
    "events while it runs": Row(
        [
            "async with opened() as a:\n    async for e in a.prompt('hi'):\n"
            "        if isinstance(e, events.AgentEnd): print('end')"
        ],
        "end\n",
    ),
    "a handler prints": Row(
        [
            "async with opened() as a:\n    a.subscribe(lambda e: isinstance(e, events.AgentEnd) and print('told'))\n"
            "    _ = await a.prompt('hi')"
        ],
        "told\n",
    ),
    "a function of a cell as a tool": Row(
        [
            "def add(a: int, b: int) -> int:\n    'Add.'\n    return a + b",
            "async with opened(calls('add', a=1, b=2), tools=[add]) as a:\n"
            "    r = await a.prompt('hi')\nprint(r.messages[2].content[0].text)",
        ],
        "3\n",
    ),
    "an async function as a tool": Row(
        [
            "async def wait(a: int) -> int:\n    'Wait.'\n    await asyncio.sleep(0)\n    return a",
            "async with opened(calls('wait', a=7), tools=[wait]) as a:\n"
            "    r = await a.prompt('hi')\nprint(r.messages[2].content[0].text)",
        ],
        "7\n",
    ),
    "a tool that is defined again": Row(
        [
            "def f() -> str:\n    'F.'\n    return 'one'",
            "def f() -> str:\n    'F.'\n    return 'two'",
            "async with opened(calls('f'), tools=[f]) as a:\n    r = await a.prompt('hi')\n"
            "print(r.messages[2].content[0].text)",
        ],
        "two\n",
    ),
    "annotations as texts": Row(
        [
            "from __future__ import annotations\ndef f(at: list[int]) -> str:\n    'F.'\n    return str(at)",
            "async with opened(calls('f', at=[1]), tools=[f]) as a:\n    r = await a.prompt('hi')\n"
            "print(r.messages[2].content[0].text)",
        ],
        "[1]\n",
    ),
    "a class of a cell as the result": Row(
        [
            "from dataclasses import dataclass\n@dataclass\nclass Fruit:\n    name: str",
            "async with opened(calls('return_result', name='apple')) as a:\n"
            "    r = await a.prompt('hi', output_schema=Fruit)\nprint(r.require_output())",
        ],
        "Fruit(name='apple')\n",
    ),
    "a permission asks": Row(
        [
            "async with opened(calls('bash', command='echo hi'), permission=lambda tool, input: 'not here') as a:\n"
            "    r = await a.prompt('hi')\nprint(r.messages[2].content[0].text)"
        ],
        "not here\n",
    ),
    "a command": Row(
        ["async with opened() as a:\n    print((await a.bash('echo out; echo err >&2')).output)"], "out\nerr\n\n"
    ),
    "an error is a sentence": Row(["tau.open(modle='x')"], error="UsageError"),
    "a run in the background": Row(
        [
            "a = await opened()\nt = asyncio.ensure_future(asyncio.wait_for(a.wait_idle(), 60))\n"
            "run = asyncio.ensure_future(anext(aiter(a.prompt('hi'))))",
            "_ = await run\nawait t\nawait a.wait_idle()\nprint(a.last_text())\nawait a.close()",
        ],
        "ok\n",
    ),
    "several agents at once": Row(
        [
            "async def one(n):\n    async with opened() as a:\n        return (await a.prompt(str(n))).text",
            "print(await asyncio.gather(*(one(n) for n in range(5))))",
        ],
        "['ok', 'ok', 'ok', 'ok', 'ok']\n",
    ),
    "the synchronous library": Row(["with opened_sync() as a:\n    print(a.prompt('hi').text)"], "ok\n"),
    "the synchronous library across cells": Row(
        ["a = opened_sync(calls('bash', command='echo x'))", "r = a.prompt('hi')", "a.close()\nprint(r.text)"], "ok\n"
    ),
    "a synchronous stream": Row(
        ["with opened_sync() as a:\n    print([events.type_of(e) for e in a.stream('hi')][-1])"], "agent_settled\n"
    ),
    "the synchronous library in a thread": Row(
        [
            "def work():\n    with opened_sync() as a:\n        return a.prompt('hi').text",
            "print(await asyncio.to_thread(work))",
        ],
        "ok\n",
    ),
    "the client": Row(
        ["async with tau.RpcClient(executable=FAKE) as c:\n    print((await c.get_state()).session_id)"], "s\n"
    ),
    "the synchronous client": Row(
        ["with tau.sync.RpcClient(executable=FAKE) as c:\n    print(c.get_state().session_id)"], "s\n"
    ),
    "interrupt": Row([f"a = await opened({SLEEP})", "r = await a.prompt('hi')"], error="", interrupt=True),
    "after the interrupt": Row(["await a.wait_idle()\nprint(await a.prompt('again'))\nawait a.close()"], "ok\n"),
    "a synchronous interrupt": Row(
        ["import os; Path('started').unlink(missing_ok=True)", f"s = opened_sync({SLEEP})", "s.prompt('hi')"],
        error="KeyboardInterrupt",
        interrupt=True,
    ),
    "after the synchronous interrupt": Row(["s.wait_idle()\nprint(s.prompt('again').text)\ns.close()"], "ok\n"),
    "asyncio.run in a cell": Row(
        ["async def f():\n    pass\nc = f()\ntry:\n    asyncio.run(c)\nfinally:\n    c.close()"], error="RuntimeError"
    ),
    "nest_asyncio": Row(
        [
            "import nest_asyncio; nest_asyncio.apply()",
            "async def go():\n    async with opened(calls('bash', command='echo x')) as a:\n"
            "        return (await a.prompt('hi')).text\nprint(asyncio.run(go()))",
        ],
        "ok\n",
    ),
    "nest_asyncio in a tool": Row(
        [
            "async def inner() -> str:\n    'Inner.'\n    async def go():\n        async with opened() as a:\n"
            "            return (await a.prompt('hi')).text\n    return asyncio.run(go())",
            "async with opened(calls('inner'), tools=[inner]) as a:\n    r = await a.prompt('hi')\n"
            "print(r.messages[2].content[0].text)",
        ],
        "ok\n",
    ),
    "an agent that stays open": Row(
        ["left = await opened(calls('bash', command='sleep 60 & echo x'))\nprint(await left.prompt('hi'))"], "ok\n"
    ),
}


class Kernel:
    def __init__(self, folder: Path) -> None:
        from jupyter_client.manager import start_new_kernel  # type: ignore[import-not-found]

        environment = {**os.environ, "HOME": str(folder), "PYTHONPATH": str(TESTS.parent / "src")}
        self.manager, self.client = start_new_kernel(kernel_name="python3", cwd=str(folder), env=environment)
        self._folder = folder

    def run(self, code: str, *, interrupt: bool = False) -> tuple[str, str]:
        """What a cell printed, and the name of its error."""
        printed, error = [], ""
        request = self.client.execute(code)
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            if interrupt and (self._folder / "started").exists():
                self.manager.interrupt_kernel()
                interrupt = False
            try:
                message: dict[str, Any] = self.client.get_iopub_msg(timeout=0.1)
            except Exception:  # queue.Empty
                continue
            if message["parent_header"].get("msg_id") != request:
                continue
            content = message["content"]
            if message["msg_type"] == "stream":
                printed.append(content["text"])
            if message["msg_type"] == "error":
                error = content["ename"]
            if message["msg_type"] == "status" and content["execution_state"] == "idle":
                return "".join(printed), error
        return "".join(printed), "it did not end"


def below(folder: Path) -> list[str]:
    """Processes that work in the folder."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdecimal() and str((process / "cwd").readlink()).startswith(str(folder)):
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def main() -> int:
    wanted, wrong = sys.argv[1:], 0
    with tempfile.TemporaryDirectory(prefix="tau-notebook-") as scratch:
        folder = Path(scratch).resolve()
        kernel = Kernel(folder)
        kernel.run(SETUP)
        for name, row in ROWS.items():
            if wanted and name not in wanted:
                continue
            for cell in row.cells[:-1]:
                kernel.run(cell)
            began = time.monotonic()
            printed, error = kernel.run(row.cells[-1], interrupt=row.interrupt)
            good = printed == row.printed and (error == row.error or (row.interrupt and error != "it did not end"))
            wrong += not good
            found = f"{printed!r} {error}".strip()
            print(f"{'ok' if good else 'WRONG':6}{name:42}{time.monotonic() - began:6.1f} s  {found}", flush=True)
        kernel.client.stop_channels()
        kernel.manager.shutdown_kernel()
        deadline = time.monotonic() + 10
        while below(folder) and time.monotonic() < deadline:
            time.sleep(0.1)
        left = below(folder)
        wrong += bool(left)
        print(f"{'WRONG' if left else 'ok':6}processes left by the kernel: {left}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
