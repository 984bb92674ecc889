"""Session files to measure with: long conversations as they really are, the same ones on every machine.

Eight entries make a turn: a prompt, three calls of tools with their results, an
answer. An entry has 1,475 bytes on average, so 40,000 of them make 59 MB. Texts
have line breaks, quotes and now and then letters beyond ASCII, as code has.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

PROSE = (
    "return value request handler the session of index buffer if None else: import class self.reply(x) a tree is not "
    'found; "quoted" path/to/file.py and then while items: total += 1 # note that 0x7f [ok] (see below) {key: value}'
)
WORDS = PROSE.split()
STARTED = 1_790_000_000_000
ZERO = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
USAGE = {"input": 1200, "output": 250, "cacheRead": 30_000, "cacheWrite": 900, "totalTokens": 32_350, "cost": ZERO}
TEXTS = 97  # different texts of a size; no divisor of anything here

Message = Mapping[str, object]


class Texts:
    """Some text of about a size, cheaply: made once, then taken in turn."""

    def __init__(self, size: int, seed: int) -> None:
        chance = random.Random(seed)
        self._made = [_prose(chance, size * chance.choice((1, 2, 3, 4, 5, 15)) // 5) for _ in range(TEXTS)]
        self._next = 0

    def __call__(self) -> str:
        self._next = (self._next + 1) % TEXTS
        return self._made[self._next]


def make(file: Path, cwd: Path, entries: int) -> str:
    """Write a session of that many entries: the id of its last prompt, to fork from."""
    last = ""
    stamp = "2026-09-21T14:%02d:%02d.%03dZ"
    with file.open("w", encoding="utf-8") as out:
        head = {"type": "session", "version": 3, "id": "0199e4a2-7c11-7f3a-9d50-3f2b8c1d4e5f"}
        out.write(_json({**head, "timestamp": stamp % (0, 0, 0), "cwd": str(cwd)}) + "\n")
        model = {"type": "model_change", "id": "00000000", "parentId": None, "timestamp": stamp % (0, 0, 0)}
        out.write(_json({**model, "provider": "bench", "modelId": "m"}) + "\n")
        before = "00000000"
        for number, message in zip(range(1, entries), messages(), strict=False):
            one = f"{number * 2_654_435_761 % (1 << 32):08x}"  # all different, in no order
            entry = {"type": "message", "id": one, "parentId": before, "timestamp": stamp % _clock(number)}
            out.write(_json({**entry, "message": {**message, "timestamp": STARTED + number * 731}}) + "\n")
            before = one
            if message["role"] == "user":
                last = one
    return last


def messages() -> Iterator[Message]:
    asks, says, thinks, reads, runs = (Texts(size, seed) for seed, size in enumerate((300, 420, 700, 2980, 1720)))
    turn = 0
    while True:
        turn += 1
        path = f"src/part{turn % 83}/module{turn % 997}.py"
        yield {"role": "user", "content": [{"type": "text", "text": f"{turn}. {asks()}"}]}
        thought = {"type": "thinking", "thinking": thinks(), "thinkingSignature": f"c2ln{turn:012}" * 20}
        yield from _called(turn, 0, [thought, _text(says())], "read", {"path": path, "limit": 120}, reads())
        command = f"python -m pytest -q tests/test_module{turn % 997}.py 2>&1 | tail -20"
        yield from _called(turn, 1, [_text(says())], "bash", {"command": command, "timeout": 120}, runs())
        edit = {"path": path, "oldText": thinks(), "newText": thinks()}
        yield from _called(turn, 2, [], "edit", edit, f"Successfully replaced text in {path}.")
        yield _assistant([_text(says() + "\n\n" + says())], "stop")


def _called(
    turn: int, number: int, before: Sequence[Message], tool: str, args: Message, result: str
) -> Iterator[Message]:
    call = f"toolu_{turn:08}{number}"
    yield _assistant([*before, {"type": "toolCall", "id": call, "name": tool, "arguments": args}], "toolUse")
    yield {"role": "toolResult", "toolCallId": call, "toolName": tool, "content": [_text(result)], "isError": False}


def _assistant(content: Sequence[Message], why: str) -> Message:
    about = {"api": "anthropic-messages", "provider": "bench", "model": "m", "usage": USAGE, "stopReason": why}
    return {"role": "assistant", "content": content, **about}


def _text(text: str) -> Message:
    return {"type": "text", "text": text}


def _prose(chance: random.Random, size: int) -> str:
    words = chance.choices(WORDS, k=size // 5)
    if chance.random() < 0.1:
        words[0] = "é → ✓"
    for at in range(9, len(words), 10):
        words[at] += "\n    "
    return " ".join(words)[:size]


def _clock(number: int) -> tuple[int, int, int]:
    return number // 60_000 % 60, number // 1000 % 60, number % 1000


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
