"""Extensions that fail in eight ways, again and again, in the real program: the harm is theirs alone.

    python tests/long/extension_faults.py [ROUNDS]

In each round the program is started with an extension whose `tool_call` handler
goes wrong in one of the ways, while a tool call waits for it. The agent must answer
everything at once, abort within a second, and be able to go on; its stdout must
hold nothing but records, a gate that failed must have blocked the tool, and when
it ends nothing of the extension may be left.
"""

from __future__ import annotations

import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.rpc_process import WITHIN, Agent, calls, is_gone, of, text

ROUNDS = 20
SECOND = 1.0

SOURCE = """
    import asyncio, os, subprocess, sys, threading, time

    async def broken():
        raise ValueError("in a task")

    def breaks():
        raise ValueError("in a thread")

    def fail():
        raise ValueError("on purpose")

    async def hang():
        await asyncio.sleep(3600)

    def loop():
        while True:
            pass

    def talk():
        print("printed")
        os.write(1, b"written\\n")
        os.system("echo from a child")
        subprocess.Popen(["sh", "-c", "echo from a child that stays; exec sleep 3600"])

    def leave():
        os._exit(7)

    def leak():
        kept = []
        while True:
            kept.append(bytearray(8 << 20))

    def background():
        asyncio.get_running_loop().create_task(broken())
        threading.Thread(target=breaks).start()

    def garbage():
        os.write(int(sys.argv[1]), b"\\xff nonsense \\n")
        time.sleep(3600)

    FAULTS = {function.__name__: function for function in (fail, hang, loop, talk, leave, leak, background, garbage)}

    def setup(pi):
        pi.command(f"pid-{os.getpid()}")(print)

        @pi.on("tool_call")
        async def gate(event, ctx):
            value = FAULTS[event.input["command"].removeprefix("echo ")]()
            if asyncio.iscoroutine(value):
                await value
    """


class Fault(NamedTuple):
    """What becomes of the tool (None: it waits until it is aborted), and how often the client is told of an error."""

    result: str | None
    blocked: bool
    told: int


FAULTS = {
    "fail": Fault("on purpose", True, 1),
    "hang": Fault(None, True, 0),
    "loop": Fault(None, True, 0),
    "talk": Fault("talk", False, 0),
    "leave": Fault("Its process ended with code 7.", True, 1),
    "leak": Fault("MemoryError", True, 1),
    "background": Fault("background", False, 2),
    "garbage": Fault("It sent what is no message", True, 1),
}


class Harm(Exception):
    """Something went wrong that is not the extension's own affair."""


def one_round(folder: Path, kind: str) -> float:
    """Seconds that the abort took, or the answer before it if that took longer."""
    file = folder / "faulty.py"
    file.write_text(textwrap.dedent(SOURCE))
    fault = FAULTS[kind]
    settings = {"extensionHost": {"memoryLimitMb": 400, "loadTimeoutMs": 60_000, "handlerTimeoutMs": 60_000}}
    answers = [calls(f"echo {kind}"), {"text": "ok"}]
    with Agent(folder, *answers, settings=settings, args=["-e", str(file)]) as agent:
        [command] = agent.get("get_commands")["commands"]
        agent.ask("prompt", message="go")
        agent.until("tool_execution_end" if fault.result is not None else "tool_execution_start")
        began = time.monotonic()
        _expect(agent.ask("get_state")["success"], "get_state was refused")
        answered = time.monotonic()
        _expect(agent.ask("abort")["success"], "abort was refused")
        taken = max(answered - began, time.monotonic() - answered)
        agent.settled()
        [end] = of("tool_execution_end", agent.events)
        if fault.result is not None:
            _expect(fault.result in text(end["result"]), f"the tool said {text(end['result'])!r}")
            _expect(end["isError"] is fault.blocked, "the tool was not blocked, or was for no reason")
        _expect(bool(agent.prompt("more")), "it could not go on")
        while len(of("extension_error", agent.events)) < fault.told:
            agent.until("extension_error")
        told = len(of("extension_error", agent.events))
        _expect(told == fault.told, f"the client was told {told} times")
        agent.close()
        _expect(agent.exit_code() == 0, "it did not end well")
    _expect(is_gone(int(command["name"].removeprefix("pid-")), within=WITHIN), "something of the extension is left")
    return taken


def _expect(good: bool, what: str) -> None:
    if not good:
        raise Harm(what)


def rounds(kind: str, count: int, folder: Path) -> list[float]:
    taken = []
    for number in range(count):
        place = folder / f"{kind}-{number}"
        place.mkdir()
        taken.append(one_round(place, kind))
    return taken


def main(count: int) -> int:
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for kind in FAULTS:
            taken = rounds(kind, count, Path(folder))
            worst = max(worst, *taken)
            print(f"{kind:12} {count} rounds, abort within {max(taken) * 1000:.0f} ms", flush=True)
    print("all abide" if worst <= SECOND else f"an abort took {worst:.2f} s")
    return 0 if worst <= SECOND else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS))
