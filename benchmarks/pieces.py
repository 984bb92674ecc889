"""What one streamed piece costs, from the bytes of the network to the update the loop gets.

    python benchmarks/pieces.py

Beside it the floor: finding the events in the bytes and reading their JSON with
msgspec, and nothing else. And tool arguments of 500 kB and 1 MB in 20-byte pieces,
with the arguments so far made ready for a snapshot after each: twice as much must
cost about twice as much.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from tau.core.agent.draft import Draft
from tau.llm.anthropic import Reader as Anthropic
from tau.llm.google import Reader as Google
from tau.llm.openai_chat_reader import Reader as Chat
from tau.llm.openai_responses import Reader as Responses
from tau.records.base import parse
from tau.records.models import Model
from tau.wire.sse import SSEDecoder
from tau.wire.unfinished import Unfinished

PIECES = 20_000
PORTION = 4096
MODEL = Model("m", "M", "x", "p", "http://127.0.0.1")
WORD = "word "


def sse(*events: dict[str, object]) -> bytes:
    return b"".join(b"event: %b\ndata: %b\n\n" % (str(e.get("type", "message")).encode(), _json(e)) for e in events)


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def anthropic(text: str = WORD, kind: str = "text", count: int = PIECES) -> bytes:
    block = (
        {"type": "text", "text": ""} if kind == "text" else {"type": "tool_use", "id": "t", "name": "n", "input": {}}
    )
    delta = (
        {"type": "text_delta", "text": text} if kind == "text" else {"type": "input_json_delta", "partial_json": text}
    )
    start = {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 1, "output_tokens": 1}}}
    piece = sse({"type": "content_block_delta", "index": 0, "delta": delta})
    return sse(start, {"type": "content_block_start", "index": 0, "content_block": block}) + piece * count


def chat() -> bytes:
    return sse({"id": "c", "choices": [{"index": 0, "delta": {"content": WORD}, "finish_reason": None}]}) * PIECES


def responses() -> bytes:
    item = {"type": "message", "id": "m", "role": "assistant", "content": []}
    part = {"type": "output_text", "text": "", "annotations": []}
    start = sse(
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.content_part.added", "item_id": "m", "output_index": 0, "content_index": 0, "part": part},
    )
    piece = {"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "content_index": 0, "delta": WORD}
    return start + sse(piece) * PIECES


def google() -> bytes:
    return sse({"candidates": [{"content": {"role": "model", "parts": [{"text": WORD}]}, "index": 0}]}) * PIECES


def read(data: bytes, reader: Callable[[Draft], object]) -> int:
    """Everything up to the update; returns how many there were."""
    decoder, one, count = SSEDecoder(), reader(Draft(MODEL, 0, Unfinished)), 0
    for at in range(0, len(data), PORTION):
        for event, text in decoder.feed(data[at : at + PORTION]):
            count += len(one.read(event, text))  # type: ignore[attr-defined]
    return count


def floor(data: bytes) -> int:
    decoder, count = SSEDecoder(), 0
    for at in range(0, len(data), PORTION):
        for _, text in decoder.feed(data[at : at + PORTION]):
            count += isinstance(parse(text.encode()), dict)
    return count


def cpu(work: Callable[[], object]) -> float:
    """The best of three, in seconds."""
    took = []
    for _ in range(3):
        before = time.process_time()
        work()
        took.append(time.process_time() - before)
    return min(took)


def main() -> int:
    print(f"{'per text piece':28}{'tau':>10}{'floor':>10}")
    worst = 0.0
    for name, data, reader in (
        ("anthropic-messages", anthropic(), Anthropic),
        ("openai-completions", chat(), Chat),
        ("openai-responses", responses(), Responses),
        ("google-generative-ai", google(), Google),
    ):
        ours = cpu(lambda data=data, reader=reader: read(data, reader)) / PIECES * 1e6
        least = cpu(lambda data=data: floor(data)) / PIECES * 1e6
        worst = max(worst, ours)
        print(f"{name:28}{ours:8.1f}us{least:8.1f}us")

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    costs = {}
    for size in (500_000, 1_000_000):
        data = anthropic('\\"' + "x" * 18, "tool", size // 20)
        costs[size] = cpu(lambda data=data: read(data, Anthropic))
        print(f"arguments of {size // 1000:5} kB           {costs[size]:8.2f} s")
    ratio = costs[1_000_000] / costs[500_000]
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"twice the size costs {ratio:.2f} times as much (allowed: 2.2); {grown:.0f} MB more memory")
    return 0 if worst <= 15 and ratio <= 2.2 and grown <= 100 else 1


if __name__ == "__main__":
    sys.exit(main())
