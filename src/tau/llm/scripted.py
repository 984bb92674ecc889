"""A model that follows a script: the test double of tau's own suite, and of yours.

    pi --mode rpc --model scripted --script talk.json

The script is JSON: {"answers": [ANSWER, ...]}, played one per model call; when
they are used up the last is played again. An ANSWER has

    blocks        what it says, in order:
                    {"text": "Hello"} or {"text": ["Hel", "lo"]}       one piece or several
                    {"thinking": "Hm.", "signature": "abc"}
                    {"tool": "bash", "arguments": {...}, "id": "call_1"}
                    {"tool": "bash", "arguments": "{\\"command\\": \\"ec"}  raw text, which may be cut
    text          short for one block of text
    stop          "stop", "length" or "toolUse"; by default what the blocks ask for
    usage         {"input": 10, "output": 5, "cacheRead": 0, "cacheWrite": 0}
    startDelayMs  how long it takes to begin; delayMs: how long before each piece
    error         {"message": "529 overloaded", "after": 2}: fail after that many pieces
    hangAfter     stop for ever after that many pieces
    repeat        say each piece this many times, for load
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Literal

from tau.core.agent.draft import Draft
from tau.errors import ModelError
from tau.llm.types import Context, Fact, Pause, World
from tau.records.base import BadRecord, Record, decode, encode
from tau.records.messages import Usage
from tau.records.models import Model

FOR_EVER = 10**9


class ScriptUsage(Record, forbid_unknown_fields=True):
    input: int = 10
    output: int = 5
    cache_read: int = 0
    cache_write: int = 0


class ScriptError(Record, forbid_unknown_fields=True):
    message: str
    after: int = 0
    retry_after_ms: int | None = None


class ScriptBlock(Record, forbid_unknown_fields=True):
    text: str | list[str] | None = None
    thinking: str | list[str] | None = None
    signature: str | None = None
    tool: str | None = None
    arguments: dict[str, Any] | str | list[str] = {}
    id: str | None = None


class Answer(Record, forbid_unknown_fields=True):
    blocks: list[ScriptBlock] = []
    text: str | None = None
    stop: Literal["stop", "length", "toolUse"] | None = None
    usage: ScriptUsage = ScriptUsage()
    start_delay_ms: int = 0
    delay_ms: int = 0
    error: ScriptError | None = None
    hang_after: int | None = None
    repeat: int = 1


class Script(Record, forbid_unknown_fields=True):
    answers: list[Answer]


@cache
def read_script(data: bytes) -> Script:
    try:
        script = decode(Script, data)
    except BadRecord as error:
        raise ModelError(f"The script is wrong: {error}", transient=False) from None
    if not script.answers:
        raise ModelError("The script is wrong: answers: empty", transient=False)
    return script


def answer(model: Model, context: Context, draft: Draft, world: World) -> Iterator[Sequence[Fact] | Pause]:
    answers = read_script(world.script).answers
    yield from play(answers[min(world.turn, len(answers) - 1)], draft, world.turn)


def play(said: Answer, draft: Draft, turn: int) -> Iterator[Sequence[Fact] | Pause]:
    if said.start_delay_ms:
        yield Pause(said.start_delay_ms)
    use = said.usage
    draft.note(usage=Usage(use.input, 0, use.cache_read, use.cache_write), response_id=f"scripted_{turn}")
    count = 0
    for facts, piece in _steps(said, draft, turn):
        if piece is not None:
            if said.error and count == said.error.after:
                raise ModelError(said.error.message, retry_after_ms=said.error.retry_after_ms)
            if said.hang_after is not None and count == said.hang_after:
                yield Pause(FOR_EVER)
            if said.delay_ms:
                yield Pause(said.delay_ms)
            count += 1
            facts = [draft.add(*piece)]
        yield facts
    if said.error:
        raise ModelError(said.error.message, retry_after_ms=said.error.retry_after_ms)
    if said.hang_after is not None:
        yield Pause(FOR_EVER)
    draft.note(usage=Usage(use.input, use.output, use.cache_read, use.cache_write))
    calls = any(block.tool for block in said.blocks)
    yield draft.done(said.stop or ("toolUse" if calls else "stop"))


def _steps(said: Answer, draft: Draft, turn: int) -> Iterator[tuple[Sequence[Fact], tuple[int, str] | None]]:
    """What to tell, or the next piece to say as (block, text)."""
    blocks = [*said.blocks, *([ScriptBlock(text=said.text)] if said.text is not None else [])]
    for block in blocks:
        at = draft.blocks
        if block.tool is not None:
            yield [draft.open_call(block.id or f"call_{turn}_{at}", block.tool)], None
            pieces = _pieces(encode(block.arguments).decode() if isinstance(block.arguments, dict) else block.arguments)
        else:
            thinks = block.text is None
            yield [draft.open("thinking" if thinks else "text")], None
            pieces = _pieces((block.thinking if thinks else block.text) or "")
        for piece in pieces:
            for _ in range(said.repeat):
                yield (), (at, piece)
        if block.signature:
            draft.sign(at, block.signature)
        yield [draft.close(at)], None


def _pieces(text: str | list[str]) -> list[str]:
    return text if isinstance(text, list) else [text]
