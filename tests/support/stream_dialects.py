"""The same answer of every API, event by event, with what is needed in it: what stream_mutations.py changes."""

from __future__ import annotations

import copy
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from support.recorded_streams import aws, sse
from tau.records.base import encode
from tau.records.models import Model

ARGUMENTS = ({"command": 'echo "é 😀" \\ {}', "timeout": 5}, {"path": "a/b.txt", "edits": [{"old": "", "new": "\n"}]})
THOUGHT = ("Let me ", "see… ", "é")
WORDS = ("Hello", ", ", 'wör"ld', " 😀\n")


@dataclass
class Event:
    """`block` is the block, item or call that it belongs to: events of different blocks are independent of each other,
    apart from the first ones. None is for events of the whole answer, which stay where they are.
    """

    name: str
    data: dict[str, Any]
    block: int | None = None
    is_first: bool = False
    movable: bool = False  # it may stand anywhere before the last event
    optional: bool = False  # the answer is the same without it


@dataclass(frozen=True)
class Dialect:
    """How the servers of one API speak. Fields are paths; `*` stands for every place in a list.

    `needed` is never touched. `order` identifies the block of an event: it may be missing if events of several blocks
    are not mixed. `kinds` are the types of events, which may only be missing, never another.
    """

    api: str
    events: Callable[[], list[Event]]
    pack: Callable[[Event, bool], bytes]
    needed: frozenset[str]
    order: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()
    own: tuple[str, ...] = ()  # what is kept whole, like arguments
    deltas: tuple[str, ...] = ()  # where the pieces of a text are, which can be cut further

    @property
    def model(self) -> Model:
        return Model("m", "M", self.api, "lab", "https://lab.example", reasoning=True)


def _sse(event: Event, names: bool) -> bytes:
    if not event.name and not event.data:
        return b"data:\n\n"
    return sse(event.data, event.name if names else "")


def _chat_sse(event: Event, names: bool) -> bytes:
    if event.name == "[DONE]":
        return b"data: [DONE]\n\n"
    return b": keep-alive\n\n" if not event.data else sse(event.data)


def _frame(event: Event, names: bool) -> bytes:
    return aws(event.name or "keepAlive", event.data)


def _packed_frame(event: Event, names: bool) -> bytes:
    if not event.name and not event.data:
        return aws("keepAlive", {})
    data = event.data if event.data.get("type") else {**event.data, "type": event.name}
    return aws("chunk", {"bytes": b64encode(encode(data)).decode(), "p": "abc"})


def _pieces(arguments: Any) -> list[str]:
    text = encode(arguments).decode()
    return [text[:7], text[7:19], text[19:]]


def anthropic() -> list[Event]:
    def event(type: str, block: int | None = None, **fields: Any) -> Event:
        return Event(type, {"type": type, **fields}, block)

    def block(index: int, start: dict[str, Any], kind: str, name: str, pieces: Sequence[str]) -> list[Event]:
        first = event("content_block_start", index, index=index, content_block=start)
        first.is_first = True
        return [
            first,
            *(
                event("content_block_delta", index, index=index, delta={"type": f"{kind}_delta", name: piece})
                for piece in pieces
            ),
        ]

    usage = {"input_tokens": 9, "output_tokens": 1, "cache_read_input_tokens": 3, "service_tier": "standard"}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "m", "usage": usage}
    start = event("message_start", message=message)
    start.optional = True
    events = [start, Event("ping", {"type": "ping"}, movable=True, optional=True)]
    events += block(0, {"type": "thinking", "thinking": "", "signature": ""}, "thinking", "thinking", THOUGHT)
    events += [
        event("content_block_delta", 0, index=0, delta={"type": "signature_delta", "signature": "c2ln"}),
        event("content_block_stop", 0, index=0),
    ]
    events += [*block(1, {"type": "text", "text": ""}, "text", "text", WORDS), event("content_block_stop", 1, index=1)]
    for at, arguments in enumerate(ARGUMENTS, start=2):
        tool = {"type": "tool_use", "id": f"toolu_{at}", "name": "bash", "input": {}}
        events += block(at, tool, "input_json", "partial_json", ["", *_pieces(arguments)])
        events.append(event("content_block_stop", at, index=at))
    end = event("message_delta", delta={"stop_reason": "tool_use", "stop_sequence": None}, usage={"output_tokens": 20})
    end.movable = True
    return [*events, end, event("message_stop")]


ANTHROPIC = {
    "needed": frozenset(
        (
            "content_block",
            "content_block.type",
            "content_block.id",
            "content_block.name",
            "delta",
            "delta.text",
            "delta.thinking",
            "delta.partial_json",
            "delta.signature",
            "delta.stop_reason",
        )
    ),
    "order": frozenset(("index",)),
    "kinds": frozenset(("type", "delta.type", "content_block.text", "content_block.thinking")),
    "own": ("content_block.input",),
    "deltas": ("delta.text", "delta.thinking", "delta.partial_json"),
}


def chat() -> list[Event]:
    def chunk(
        delta: dict[str, Any], block: int | None = None, reason: str | None = None, *, first: bool = False
    ) -> Event:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "system_fingerprint": "f"}
        return Event("", {**head, "choices": [choice], "usage": None}, block, first)

    events = [chunk({"role": "assistant", "content": "", "refusal": None})]
    events += [chunk({"reasoning_content": piece, "content": None}) for piece in THOUGHT]
    events += [chunk({"content": piece, "tool_calls": None}) for piece in WORDS]
    for at, arguments in enumerate(ARGUMENTS):
        call = {"index": at, "id": f"call_{at}", "type": "function", "function": {"name": "bash", "arguments": ""}}
        events.append(chunk({"tool_calls": [call]}, at, first=True))
        for piece in _pieces(arguments):
            part = {"index": at, "id": None, "type": None, "function": {"name": None, "arguments": piece}}
            events.append(chunk({"tool_calls": [part]}, at))
    usage = {"prompt_tokens": 9, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 3}}
    counted = Event("", {"id": "c1", "choices": [], "usage": usage}, movable=True, optional=True)
    return [*events, chunk({}, reason="tool_calls"), counted, Event("[DONE]", {"done": True}, optional=True)]


CALL = "choices.*.delta.tool_calls.*"
CHAT = {
    "needed": frozenset(
        (
            "choices.*.delta",
            "choices.*.delta.content",
            "choices.*.delta.reasoning_content",
            "choices.*.delta.tool_calls",
            "choices.*.delta.refusal",
            f"{CALL}.id",
            f"{CALL}.function.name",
            f"{CALL}.function.arguments",
            "choices.*.finish_reason",
            "choices.*.index",
            "done",
        )
    ),
    "order": frozenset((f"{CALL}.index",)),
    "deltas": ("choices.*.delta.content", "choices.*.delta.reasoning_content"),
}


def responses() -> list[Event]:
    def event(type: str, block: int | None = None, **fields: Any) -> Event:
        place = {} if block is None else {"output_index": block, "content_index": 0}
        data = {"type": f"response.{type}", "sequence_number": 1, **place, **fields}
        return Event(f"response.{type}", data, block)

    def added(block: int, **item: Any) -> Event:
        first = event("output_item.added", block, item={"status": "in_progress", **item})
        first.is_first = True
        return first

    def extra(made: Event) -> Event:
        made.optional = True
        return made

    response = {"id": "resp_1", "object": "response", "status": "in_progress", "output": [], "tools": []}
    events = [extra(event("created", response=response)), extra(event("in_progress", response=response))]
    thought = {"type": "reasoning", "id": "rs_1", "summary": []}
    events.append(added(0, **thought))
    events += [event("reasoning_text.delta", 0, item_id="rs_1", delta=piece) for piece in THOUGHT]
    whole = {**thought, "content": [{"type": "reasoning_text", "text": "".join(THOUGHT)}]}
    events.append(event("output_item.done", 0, item=whole))
    message = {"type": "message", "id": "msg_1", "role": "assistant"}
    events += [added(1, **message, content=[]), extra(event("content_part.added", 1, item_id="msg_1", part={}))]
    events += [event("output_text.delta", 1, item_id="msg_1", delta=piece, logprobs=[]) for piece in WORDS]
    text = {"type": "output_text", "text": "".join(WORDS), "annotations": []}
    events.append(extra(event("output_text.done", 1, item_id="msg_1", text="".join(WORDS))))
    events.append(event("output_item.done", 1, item={**message, "status": "completed", "content": [text]}))
    for at, arguments in enumerate(ARGUMENTS, start=2):
        call = {"type": "function_call", "id": f"fc_{at}", "call_id": f"call_{at}", "name": "bash"}
        whole_text = encode(arguments).decode()
        events.append(added(at, **call, arguments=""))
        events += [
            event("function_call_arguments.delta", at, item_id=f"fc_{at}", delta=piece) for piece in _pieces(arguments)
        ]
        events.append(extra(event("function_call_arguments.done", at, item_id=f"fc_{at}", arguments=whole_text)))
        done = event("output_item.done", at, item={**call, "status": "completed", "arguments": whole_text})
        events.append(extra(done))
    usage = {"input_tokens": 9, "output_tokens": 20, "input_tokens_details": {"cached_tokens": 3}}
    return [*events, event("completed", response={**response, "status": "completed", "usage": usage})]


RESPONSES = {
    "needed": frozenset(
        """
        delta item.type item.id item.call_id item.name item.summary item.content item.status content_index arguments
        response.status response.output text
        """.split()
    ),
    "order": frozenset(("output_index", "item_id")),
    "kinds": frozenset(("type",)),
    "own": ("item",),
}


def google() -> list[Event]:
    def chunk(*parts: dict[str, Any], reason: str | None = None) -> Event:
        candidate = {"content": {"parts": list(parts), "role": "model"}, "index": 0, "safetyRatings": []}
        usage = {"promptTokenCount": 9, "candidatesTokenCount": 1, "promptTokensDetails": [{"modality": "TEXT"}]}
        data = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m", "responseId": "g1"}
        if reason:
            candidate["finishReason"] = reason
        return Event("", data)

    events = [chunk({"text": piece, "thought": True}) for piece in THOUGHT]
    events += [chunk({"text": piece}) for piece in WORDS]
    for at, arguments in enumerate(copy.deepcopy(ARGUMENTS)):
        call = {"name": "bash", "args": arguments, "id": f"call_{at}"}
        events.append(chunk({"functionCall": call, "thoughtSignature": "c2ln"}))
    counted = Event("", {"usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 30}}, movable=True, optional=True)
    return [*events, chunk({"text": ""}, reason="STOP"), counted]


PART = "candidates.*.content.parts.*"
GOOGLE = {
    "needed": frozenset((f"{PART}.text", f"{PART}.thought", f"{PART}.thoughtSignature", "candidates.*.finishReason"))
    | frozenset((f"{PART}.functionCall",)),
    "own": (f"{PART}.functionCall.",),
    "deltas": (f"{PART}.text",),
}


def converse() -> list[Event]:
    def block(index: int, start: Any, *deltas: Any) -> list[Event]:
        events = (
            [Event("contentBlockStart", {"contentBlockIndex": index, "start": start, "p": "a"}, index)] if start else []
        )
        events += [
            Event("contentBlockDelta", {"contentBlockIndex": index, "delta": one, "p": "a"}, index) for one in deltas
        ]
        events[0].is_first = True
        return [*events, Event("contentBlockStop", {"contentBlockIndex": index, "p": "a"}, index)]

    thoughts = [{"reasoningContent": {"text": piece}} for piece in THOUGHT]
    events = [Event("messageStart", {"role": "assistant", "p": "a"}, optional=True)]
    events += block(0, None, *thoughts, {"reasoningContent": {"signature": "c2ln"}})
    events += block(1, None, *({"text": piece} for piece in WORDS))
    for at, arguments in enumerate(ARGUMENTS, start=2):
        start = {"toolUse": {"toolUseId": f"tooluse_{at}", "name": "bash"}}
        events += block(at, start, *({"toolUse": {"input": piece}} for piece in _pieces(arguments)))
    usage = {"inputTokens": 9, "outputTokens": 20, "totalTokens": 29}
    counted = Event("metadata", {"usage": usage, "metrics": {"latencyMs": 5}}, movable=True, optional=True)
    return [*events, Event("messageStop", {"stopReason": "tool_use"}), counted]


CONVERSE = {
    "own": ("delta.",),
    "needed": frozenset(("delta", "start.toolUse.toolUseId", "start.toolUse.name", "stopReason")),
    "order": frozenset(("contentBlockIndex",)),
    "deltas": ("delta.text", "delta.reasoningContent.text", "delta.toolUse.input"),
}

DIALECTS = [
    Dialect("anthropic-messages", anthropic, _sse, **ANTHROPIC),  # type: ignore[arg-type]
    Dialect("openai-completions", chat, _chat_sse, **CHAT),  # type: ignore[arg-type]
    Dialect("mistral-conversations", chat, _chat_sse, **CHAT),  # type: ignore[arg-type]
    Dialect("openai-responses", responses, _sse, **RESPONSES),  # type: ignore[arg-type]
    Dialect("azure-openai-responses", responses, _sse, **RESPONSES),  # type: ignore[arg-type]
    Dialect("google-generative-ai", google, _sse, **GOOGLE),  # type: ignore[arg-type]
    Dialect("google-vertex", google, _sse, **GOOGLE),  # type: ignore[arg-type]
    Dialect("bedrock-converse-stream", converse, _frame, **CONVERSE),  # type: ignore[arg-type]
    Dialect("bedrock-anthropic-messages", anthropic, _packed_frame, **ANTHROPIC),  # type: ignore[arg-type]
]
