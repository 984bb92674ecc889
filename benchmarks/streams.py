"""Answers of a model, as the bytes of Anthropic's API, made before anyone measures.

A stream has a name, which is the path that a program under measure calls:

    one               one short piece
    text-N            one short piece, and to the second request N pieces of text
    paced-N           the same, each piece by itself and 1 ms after the one before
    markdown-N        one short piece; then N pieces of Markdown in the same way, the last of which is "Finished."
    numbered-N        one short piece; then N pieces, piece0001 to piece000N
    slow-N            the same with 20 ms between
    silent-N          one short piece; then one after N seconds without anything
    arguments-N       one short piece; then a call of `write` whose arguments have N bytes, in pieces of 20;
                      then one short piece
    calls-N           one short piece; then one answer with N calls of `read`; then one short piece
    bash-N            one short piece; then N answers that call bash; then one short piece

Every event is a chunk of its own, as it comes from the real thing; a reader that
gets many at once still has to take them apart. Most are sent at full speed; the paced
ones show what a piece costs that comes alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence

PIECE = "word, "
FINISHED = "Finished."
MARKDOWN = """\
## Where the value comes from

The handler reads the **first** entry of the index and asks the session for its buffer. If there is none, `load()` makes
one, and the *caller* pays for it; the tests in `tests/test_handler.py` show both cases. Nothing else writes to it.

- the buffer grows by doubling, up to a limit
- an entry that is removed leaves a gap, which the next `compact()` closes
- names are case-insensitive, as they are on disk

```python
def handler(request: Request) -> Reply:
    entry = index.find(request.name)
    if entry is None:
        raise KeyError(request.name)
    return Reply(entry.value, cached=entry.seen > 1)
```

1. Run the tests again.
2. Look at the log: it names the entry, its age and who asked for it last, and whether the gap was closed.

"""
PORTION = 20  # bytes of arguments in one piece
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"

Event = Mapping[str, object]
Answer = list[bytes]  # in one go, or with pauses between


def answers(name: str) -> list[Answer]:
    """What is sent to the first request, the second, ...; the last one is for all that follow."""
    kind, _, number = name.partition("-")
    done = _at_once(_text(["done"]), "end_turn")
    match kind:
        case "one":
            return [done]
        case "text":
            return [done, _at_once(_text([PIECE] * int(number)), "end_turn")]
        case "paced":
            return [done, _answer(_text([PIECE] * int(number)), "end_turn")]
        case "markdown" | "slow":
            return [done, _answer(_text(markdown_pieces(int(number))), "end_turn")]
        case "numbered":
            return [done, _answer(_text([f"{numbered(at)} " for at in range(int(number))]), "end_turn")]
        case "silent":
            head, *rest = _answer(_text(["done"]), "end_turn")
            return [done, [head, b"".join(rest)]]
        case "arguments":
            return [done, _at_once(_call("write", _long_arguments(int(number))), "tool_use"), done]
        case "calls":
            calls_of_read = [_call("read", ['{"path":"note.txt"}'], turn, turn) for turn in range(int(number))]
            return [done, _at_once([event for call in calls_of_read for event in call], "tool_use"), done]
        case "bash":
            calls = (_call("bash", ['{"command":"true"}'], turn) for turn in range(int(number)))
            return [done, *(_at_once(call, "tool_use") for call in calls), done]
    raise ValueError(f"There is no stream named {name}: see streams.py")


def pause_between(name: str) -> float:
    """Seconds before each part of an answer but the first, where it is not sent in one go."""
    kind, _, number = name.partition("-")
    match kind:
        case "slow":
            return 0.02
        case "silent":
            return float(number)
    return 0.001


def numbered(at: int) -> str:
    return f"piece{at + 1:04}"


def markdown_pieces(count: int) -> list[str]:
    words = re.findall(r"\S+\s*|\s+", MARKDOWN)
    return [*(words[at % len(words)] for at in range(count - 1)), f"\n\n{FINISHED}"]


def _long_arguments(size: int) -> list[str]:
    line = "if value is None and other > 0:  # a line of code"
    start = '{"path":"long.txt","content":"'
    body = (line + "\\n") * (size // (len(line) + 2))
    text = start + body + '"}'
    return [text[at : at + PORTION] for at in range(0, len(text), PORTION)]


def _text(pieces: Iterable[str]) -> list[Event]:
    block = {"type": "text", "text": ""}
    return _block(block, [{"type": "text_delta", "text": piece} for piece in pieces])


def _call(tool: str, pieces: Sequence[str], turn: int = 0, index: int = 0) -> list[Event]:
    block = {"type": "tool_use", "id": f"toolu_{turn:06}", "name": tool, "input": {}}
    return _block(block, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces], index)


def _block(block: Event, deltas: Sequence[Event], index: int = 0) -> list[Event]:
    return [
        {"type": "content_block_start", "index": index, "content_block": block},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def _at_once(events: Sequence[Event], why: str) -> Answer:
    return [b"".join(_answer(events, why))]


def _answer(events: Sequence[Event], why: str) -> Answer:
    message: Event = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 1},
    }
    first: Event = {"type": "message_start", "message": message}
    stop: Event = {
        "type": "message_delta",
        "delta": {"stop_reason": why, "stop_sequence": None},
        "usage": {"output_tokens": len(events)},
    }
    last: Event = {"type": "message_stop"}
    return [HEAD, *map(_chunk, [first, *events, stop, last]), b"0\r\n\r\n"]


def _chunk(event: Event) -> bytes:
    data = f"event: {event['type']}\ndata: {json.dumps(event, separators=(',', ':'))}\n\n".encode()
    return b"%x\r\n%b\r\n" % (len(data), data)
