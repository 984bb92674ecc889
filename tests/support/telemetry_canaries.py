"""Texts that must not leave the machine, in every place that a conversation has, and the search for them.

A run has about thirty: the folders, instructions, prompts, answers, thoughts, arguments, outputs, errors, keys, names
of tools that do not exist, and what extensions fail with. All begin with one mark: one search finds any of them.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tau
from support.library_agent import Json

MARK = "cAnArY7q"
logger = logging.getLogger("tau.canaries")  # as one of tau's own loggers


class Canaries:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self, kind: str = "") -> str:
        self.count += 1
        return f"{kind}{MARK}{self.count:06d}"

    def key(self) -> str:
        return f"sk-{self()}-0123456789abcdef"


def forms(mark: str) -> list[bytes]:
    """The mark as it is, in base64 at any place, and as hexadecimal digits."""
    plain = mark.encode()
    packed = [base64.b64encode(b"\0" * at + plain)[4:-4] for at in range(3)]
    return [plain, plain.lower(), plain.hex().encode(), *packed]


def found(bodies: Iterable[bytes], mark: str = MARK) -> list[str]:
    """Where the mark is in what was sent, with what is around it."""
    places = []
    for body in bodies:
        for form in forms(mark):
            if (at := body.find(form)) >= 0:
                places.append(repr(body[max(0, at - 60) : at + 40]))
    return places


async def one_run(folder: Path, canary: Canaries, environment: Mapping[str, str]) -> None:
    """One session with canaries everywhere: two prompts, tools, failures, steering, a compaction, warnings."""
    work, agent_dir = folder / canary("work"), folder / canary("agent")
    for path in (work, agent_dir / "skills" / canary("skill-").lower()):
        path.mkdir(parents=True)
    (work / "AGENTS.md").write_text(canary("Instructions "))
    (work / f"{canary('file')}.txt").write_text(canary("line "))
    key = canary.key()
    steered = asyncio.Event()

    async def steer(agent: tau.Agent) -> None:
        await agent.steer(canary("steer "))
        steered.set()

    def failing(pi: Any) -> None:
        @pi.on("turn_end")
        def fail(event: Any, context: Any) -> None:
            raise RuntimeError(canary("extension "))

    async with tau.open(
        work,
        agent_dir=agent_dir,
        session=agent_dir / f"{canary('session')}.jsonl",
        name=canary("name "),
        script=_answers(canary, key),
        system_prompt=canary("system "),
        append_system_prompt=canary("appended "),
        keys={"anthropic": key},
        env={**environment, "PATH": os.environ["PATH"], "HOME": str(folder), "OPENAI_API_KEY": canary.key()},
        settings={"retry": {"baseDelayMs": 1}, "compaction": {"keepRecentTokens": 1}},
        permissions={"deny": [{"tool": "write"}], "otherwise": "allow"},
        extensions=[failing],
        telemetry=True,
    ) as agent:
        run = agent.prompt(canary("prompt "))
        async for event in run:
            if isinstance(event, tau.events.ToolStart) and not steered.is_set():
                await steer(agent)
        await run
        await agent.bash(f"echo {canary('own ')}; false", exclude_from_context=False)
        logger.warning("a file cannot be read: %s: %s", work / canary("log"), OSError(canary("os ")))
        logger.error("%s", canary("problem "), exc_info=ValueError(canary("value ")))
        await agent.compact(canary("focus "))
        await agent.prompt(canary("again "))


def _answers(canary: Canaries, key: str) -> list[Json]:
    tool: list[tuple[str, Json]] = [
        ("bash", {"command": f"echo {canary('output ')} {key}; exit 3"}),
        ("bash", {"command": f"cat {canary('missing')}"}),
        ("read", {"path": f"/tmp/{canary('path')}/x"}),
        ("write", {"path": f"{canary('target')}.txt", "content": canary("content ")}),
        ("edit", {"path": canary("edited"), "oldText": canary("old "), "newText": canary("new ")}),
        (canary("tool_"), {canary("argument"): canary("value ")}),
    ]
    calls: list[Json] = [
        {"blocks": [{"thinking": canary("thought ")}, {"text": canary("said ")}, {"tool": name, "arguments": given}]}
        for name, given in tool
    ]
    failed: Json = {"blocks": [], "error": {"message": f"529 overloaded {canary('error ')} {key}"}}
    rest: list[Json] = [{"text": canary(text)} for text in ("done ", "steered ", "summary ", "again ")]
    return [calls[0], failed, *calls[1:], *rest]


async def many_runs(folder: Path, runs: int, environment: Mapping[str, str], at_once: int = 8) -> Canaries:
    canary, limit = Canaries(), asyncio.Semaphore(at_once)

    async def one(number: int) -> None:
        async with limit:
            await one_run(folder / str(number), canary, environment)

    await asyncio.gather(*map(one, range(runs)))
    return canary


def as_json(values: Iterable[Any]) -> bytes:
    return json.dumps([str(value) for value in values]).encode()
