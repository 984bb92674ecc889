"""What a run may be doing when it is aborted, in the real program: how it is brought there, and how it is left."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from long.witness import Heart
from support.rpc_process import Agent, Json, calls, endless, kinds, piece, text

STUBBORN = "trap '' TERM INT HUP; echo $$; while :; do sleep 0.1; done"
PATIENT = {
    "retry": {"baseDelayMs": 600_000},
    "extensionHost": {"loadTimeoutMs": 60_000, "handlerTimeoutMs": 3_600_000, "observerTimeoutMs": 3_600_000},
}

GATE = """
import asyncio

def setup(pi):
    @pi.on("tool_call")
    async def gate(event, ctx):
"""


class Scene(NamedTuple):
    """`answer` is what the model says each time; `extension` is the body of a `tool_call` handler.

    The process of an extension that does not let go is ended, and started again only
    so often: that is how many times the scene can be `played` with one agent.
    """

    answer: Json
    begin: Callable[[Agent], None]
    extension: str = ""
    played: int = 1_000_000


def output(event: Json) -> str:
    """What a tool has said so far; nothing, if the event is about something else."""
    if event["type"] != "tool_execution_update":
        return ""
    return text(event["partialResult"])


def begin_streaming(agent: Agent) -> None:
    agent.ask("prompt", message="go")
    agent.until(piece)


def begin_waiting_for_a_model(agent: Agent) -> None:
    agent.ask("prompt", message="go")
    agent.until(lambda event: event["type"] == "message_end" and event["message"]["role"] == "user")


def begin_waiting_for_a_retry(agent: Agent) -> None:
    agent.ask("prompt", message="go")
    agent.until("auto_retry_start")


def begin_a_tool(agent: Agent) -> None:
    agent.ask("prompt", message="go")
    agent.until(lambda event: "\n" in output(event))


def begin_what_an_extension_shows(agent: Agent) -> None:
    agent.ask("prompt", message="go")
    agent.until("extension_ui_request")


SCENES: dict[str, Scene] = {
    "streaming": Scene({"text": "word ", "repeat": 1_000_000, "delayMs": 1}, begin_streaming),
    "streaming as fast as it can": Scene({"text": "word ", "repeat": 100_000_000}, begin_streaming),
    "a model that stalls in its answer": Scene(endless("so far"), begin_streaming),
    "a model that says nothing": Scene({"startDelayMs": 10**9, "text": "late"}, begin_waiting_for_a_model),
    "between two tries": Scene({"error": {"message": "529 overloaded"}}, begin_waiting_for_a_retry),
    "a tool": Scene(calls("echo running; sleep 1000"), begin_a_tool),
    "a tool that ignores SIGTERM": Scene(calls(STUBBORN), begin_a_tool),
    "a tool that prints without end": Scene(calls("while :; do echo y; done"), begin_a_tool),
    "a tool whose child holds the pipe": Scene(calls("echo started; sleep 1000 & wait"), begin_a_tool),
    "a hook that hangs": Scene(
        calls("echo never"),
        begin_what_an_extension_shows,
        "ctx.ui.notify('begun'); await asyncio.Event().wait()",
    ),
    "a dialog that nobody answers": Scene(
        calls("echo never"), begin_what_an_extension_shows, "await ctx.ui.confirm('May it?', 'Say yes or no.')"
    ),
    "an extension that loops": Scene(
        calls("echo never"),
        begin_what_an_extension_shows,
        "ctx.ui.notify('begun'); await asyncio.sleep(0.05)\nwhile True: pass",
        played=3,
    ),
}


@contextmanager
def on_stage(folder: Path, name: str) -> Iterator[Agent]:
    """An agent that can be brought into a scene."""
    scene, args = SCENES[name], []
    if scene.extension:
        file = folder / "faulty.py"
        file.write_text(GATE + textwrap.indent(scene.extension, " " * 8))
        args = ["-e", str(file)]
    with Agent(folder, scene.answer, settings=PATIENT, args=args) as agent:
        yield agent


def seconds_to_abort(agent: Agent) -> float:
    """Without those in which the machine had no time for anybody."""
    before = time.monotonic()
    with Heart() as heart:
        response = agent.ask("abort")
        taken = time.monotonic() - before
    assert response["success"], response
    return taken - heart.lost(before)


def seconds_to_abort_in(name: str, agent: Agent) -> float:
    """Begin the scene and abort it. The run has to be told to its end."""
    SCENES[name].begin(agent)
    taken = seconds_to_abort(agent)
    events = agent.settled()
    assert kinds(events)[-1] == "agent_settled" and events[-1]["aborted"] is True
    return taken
