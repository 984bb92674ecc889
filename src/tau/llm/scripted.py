"""A model that follows a script: a test double for tau's own tests and for those of its users.

    pi --mode rpc --model scripted --script talk.json

The script is JSON: {"answers": [ANSWER, ...]}, one per model call; the last answer is repeated when they are used
up. An ANSWER has

    blocks        its content, in order:
                    {"text": "Hello"} or {"text": ["Hel", "lo"]}       one delta or several
                    {"thinking": "Hm.", "signature": "abc"}
                    {"tool": "bash", "arguments": {...}, "id": "call_1"}
                    {"tool": "bash", "arguments": "{\\"command\\": \\"ec"}  raw text, possibly incomplete
    text          short for one block of text
    stop          "stop", "length" or "toolUse"; by default depends on the blocks
    usage         {"input": 10, "output": 5, "cacheRead": 0, "cacheWrite": 0}
    startDelayMs  delay before the first delta; delayMs: delay before each delta
    error         {"message": "529 overloaded", "after": 2}: fail after that many deltas
    hangAfter     hang after that many deltas
    repeat        repeat each delta this many times, for load tests
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Literal

from tau.core.agent.draft import Draft
from tau.errors import ModelError
from tau.llm.types import CallEnvironment, ModelContext, ModelResult, OfflineApi, Pause
from tau.records.base import BadRecord, Record, decode, encode
from tau.records.messages import Usage
from tau.records.models import Model

FOREVER_MS = 10**9


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
        raise ModelError(f"Invalid script: {error}", transient=False) from None
    if not script.answers:
        raise ModelError("Invalid script: answers: empty", transient=False)
    return script


def answer(
    model: Model, context: ModelContext, draft: Draft, environment: CallEnvironment
) -> Iterator[Sequence[ModelResult] | Pause]:
    answers = read_script(environment.script).answers
    yield from play(answers[min(environment.turn, len(answers) - 1)], draft, environment.turn)


def play(answer: Answer, draft: Draft, turn: int) -> Iterator[Sequence[ModelResult] | Pause]:
    if answer.start_delay_ms:
        yield Pause(answer.start_delay_ms)
    use = answer.usage
    draft.set_usage(usage=Usage(use.input, 0, use.cache_read, use.cache_write), response_id=f"scripted_{turn}")
    count = 0
    for results, delta in _steps(answer, draft, turn):
        if delta is not None:
            if answer.error and count == answer.error.after:
                raise ModelError(answer.error.message, retry_after_ms=answer.error.retry_after_ms)
            if answer.hang_after is not None and count == answer.hang_after:
                yield Pause(FOREVER_MS)
            if answer.delay_ms:
                yield Pause(answer.delay_ms)
            count += 1
            results = [draft.add(*delta)]
        yield results
    if answer.error:
        raise ModelError(answer.error.message, retry_after_ms=answer.error.retry_after_ms)
    if answer.hang_after is not None:
        yield Pause(FOREVER_MS)
    draft.set_usage(usage=Usage(use.input, use.output, use.cache_read, use.cache_write))
    calls = any(block.tool for block in answer.blocks)
    yield draft.finish(answer.stop or ("toolUse" if calls else "stop"))


def _steps(answer: Answer, draft: Draft, turn: int) -> Iterator[tuple[Sequence[ModelResult], tuple[int, str] | None]]:
    """Results to yield, or the next delta to add as (block, text)."""
    blocks = [*answer.blocks, *([ScriptBlock(text=answer.text)] if answer.text is not None else [])]
    for block in blocks:
        at = draft.block_count
        if block.tool is not None:
            yield [draft.open_call(block.id or f"call_{turn}_{at}", block.tool)], None
            deltas = _deltas(encode(block.arguments).decode() if isinstance(block.arguments, dict) else block.arguments)
        else:
            thinks = block.text is None
            yield [draft.open("thinking" if thinks else "text")], None
            deltas = _deltas((block.thinking if thinks else block.text) or "")
        for delta in deltas:
            for _ in range(answer.repeat):
                yield (), (at, delta)
        if block.signature:
            draft.add_signature(at, block.signature)
        yield [draft.close(at)], None


def _deltas(text: str | list[str]) -> list[str]:
    return text if isinstance(text, list) else [text]


API = OfflineApi(answer)
