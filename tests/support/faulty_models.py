"""Faults of model servers as the real program meets them: what is served, and what has to become of the prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from support.provider_servers import CHUNKED, KEY, PIECES, Serve, Speaker, chunk, refuses, sends, served, streams, whole
from support.rpc_process import Agent, Json, of, said, text

NO_RETRY: Json = {"retry": {"enabled": False}}
# Only for servers that are silent, and say all that they say at once: a machine that is slow is none of them.
HASTY: Json = {**NO_RETRY, "httpIdleTimeoutMs": 300, "httpFirstByteTimeoutMs": 1500}
MODEL: Json = {"id": "m", "name": "M", "contextWindow": 200_000, "maxTokens": 8_000}
TOUCH = '{"command":"touch ran"}'


class Fault(NamedTuple):
    """`kept` is the text of the answer that must be there in the end; None: any beginning of it.

    Those that are `silent` come to an end only because nobody waits for ever.
    """

    serve: Callable[[Speaker], Serve]
    kept: str | None = ""
    silent: bool = False


def _half(speaker: Speaker) -> list[bytes]:
    return speaker.up_to(b"lo, ", speaker.says(*PIECES))


def at_once(*events: bytes, **how: bool) -> Serve:
    return sends(CHUNKED + b"".join(map(chunk, events)), **how)


def _calls(speaker: Speaker, arguments: str) -> list[bytes]:
    return speaker.says(calls=[("c1", "bash", arguments)])


FAULTS: dict[str, Fault] = {
    "reset": Fault(lambda speaker: streams(*_half(speaker), reset=True), None),
    "closed": Fault(lambda speaker: streams(*_half(speaker)), "Hello, "),
    "ended": Fault(lambda speaker: streams(*_half(speaker), b""), "Hello, "),
    "stalled": Fault(lambda speaker: at_once(*_half(speaker), stall=True), "Hello, ", silent=True),
    "silent": Fault(lambda speaker: sends(CHUNKED, stall=True), silent=True),
    "garbled": Fault(lambda speaker: streams(*_half(speaker), speaker.pack(b"{not json"), b""), "Hello, "),
    "an error in the stream": Fault(
        lambda speaker: streams(*_half(speaker), speaker.error(f"broken {KEY}"), b""), "Hello, "
    ),
    "a page": Fault(lambda speaker: sends(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<html>log in</html>")),
    "empty": Fault(lambda speaker: whole([])),
    "a strange end": Fault(lambda speaker: whole(speaker.says(*PIECES, finish="zork")), "".join(PIECES)),
    "a wrong key": Fault(lambda speaker: refuses(401, f"bad key {KEY}".encode())),
    "overloaded": Fault(lambda speaker: refuses(529, b"overloaded")),
    "a long error": Fault(lambda speaker: refuses(500, b"<html>" + b"x" * 200_000)),
    "a wait of a day": Fault(lambda speaker: refuses(429, b"slow down", "retry-after: 86400")),
    "a call in a stream that ends": Fault(lambda speaker: streams(*_calls(speaker, TOUCH)[:-1])),
}


@contextmanager
def asking(
    speaker: Speaker, answers: list[Serve], folder: Path, settings: Json = NO_RETRY, model: Json = MODEL
) -> Iterator[Agent]:
    """The program with the model of a server that gives these answers, and takes each off the list."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answers.pop(0)(reader, writer)

    with served(serve) as url:
        provider = {"baseUrl": url, "api": speaker.api, "apiKey": KEY, "models": [model]}
        args = ["--provider", "lab", "--model", "m"]
        models = {"providers": {"lab": provider}}
        with Agent(folder, settings=settings, models=models, args=args, offline=False) as agent:
            yield agent


def wrong_endings(speaker: Speaker, names: Sequence[str], folder: Path) -> list[str]:
    """Ask once for each fault, and once more. What the program made of them that it should not have."""
    hasty, patient = ([name for name in names if FAULTS[name].silent is silent] for silent in (True, False))
    return [
        *_wrong_endings(speaker, patient, folder / "patient", NO_RETRY),
        *_wrong_endings(speaker, hasty, folder / "hasty", HASTY),
    ]


def _wrong_endings(speaker: Speaker, names: Sequence[str], folder: Path, settings: Json) -> list[str]:
    wrong: list[str] = []
    answers = [*(FAULTS[name].serve(speaker) for name in names), at_once(*speaker.says(*PIECES), b"")]
    with asking(speaker, answers, folder, settings) as agent:
        for name in names:
            events = agent.prompt("go")
            wrong += [f"{speaker.api}, {name}: {what}" for what in _wrong(FAULTS[name], events)]
        after = said(agent.prompt("go"), "assistant")
        if [(text(one), one["stopReason"]) for one in after] != [("".join(PIECES), "stop")]:
            wrong.append(f"{speaker.api}: could not go on")
        if list(agent.cwd.iterdir()):
            wrong.append(f"{speaker.api}: a command was run")
        if KEY in str(agent.records) or KEY in agent.stderr:
            wrong.append(f"{speaker.api}: the key was told")
    return wrong


def _wrong(fault: Fault, events: Sequence[Json]) -> Iterator[str]:
    answers = said(events, "assistant")
    if len(answers) != 1:
        yield f"{len(answers)} answers"
        return
    (answer,) = answers
    kept = "".join(block.get("text", "") for block in answer["content"])
    if answer["stopReason"] != "error" or not answer.get("errorMessage"):
        yield f"ended as {answer['stopReason']!r}"
    if len(answer.get("errorMessage", "").encode()) > 4096:
        yield "a long error"
    if kept != fault.kept if fault.kept is not None else not "".join(PIECES).startswith(kept):
        yield f"kept {kept!r}"
    if of("tool_execution_start", events):
        yield "ran a tool"


def half_commands_run(speaker: Speaker, cuts: Sequence[int], folder: Path) -> int:
    """Calls whose arguments are cut after so many bytes, although the answer ends as if they were whole."""
    answers: list[Serve] = []
    run = 0
    with asking(speaker, answers, folder) as agent:
        for cut in cuts:
            answers[:] = [whole(_calls(speaker, TOUCH[:cut])), whole(speaker.says("over"))]
            agent.prompt("go")
            for file in agent.cwd.iterdir():
                file.unlink()
                run += 1
    return run
