"""A conversation whose beginning was encoded for an earlier request is the same as one that is encoded anew."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from support.readers.anthropic import MODEL
from tau.core.conversation.provider_messages import ProviderMessages
from tau.llm import request_prefix
from tau.llm.anthropic import request
from tau.llm.request_prefix import RequestPrefix
from tau.llm.types import CallOptions, ModelContext
from tau.records.base import BadRecord, encode_parts, replace
from tau.records.messages import (
    Assistant,
    BashExecution,
    CompactionSummary,
    Custom,
    Image,
    StoredMessage,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    User,
)
from tau.records.models import Model

OTHER = replace(MODEL, id="other", input=["text"])
IDS = ("a", "b", "call.1", "call_1", "", "x" * 80)
TEXTS = ("text", "", " \n", "\ud83d", "ä\u2028")


def body(messages: list[StoredMessage], model: Model, prefix: RequestPrefix | None, *, block_images: bool) -> bytes:
    sent = ProviderMessages(messages, model, block_images=block_images)
    context = ModelContext("system", sent, (), None if prefix is None else {"prefix": prefix})
    return b"".join(encode_parts(request(model, context, CallOptions(None)).body))


class Chance(Random):
    def answer(self) -> Assistant:
        content: list[Any] = []
        for _ in range(self.randrange(4)):
            text = self.choice(TEXTS)
            content.append(
                self.choice(
                    (
                        Text(text),
                        Thinking(text, "signed"),
                        Thinking(text),
                        ToolCall(self.choice(IDS), "bash", {"a": text}),
                    )
                )
            )
        model = self.choice((MODEL, MODEL, OTHER))
        stop = self.choice(("stop", "toolUse", "toolUse", "error", "aborted"))
        return Assistant(content, model.api, model.provider, model.id, Usage(), stop, 1)

    def message(self) -> StoredMessage:
        text = self.choice(TEXTS)
        image = Image("aGk=", "image/png")
        kinds: tuple[Any, ...] = (
            self.answer(),
            self.answer(),
            ToolResult(self.choice(IDS), "bash", [Text(text)], {}, False, 1),
            ToolResult(self.choice(IDS), "bash", [Text(text), image], {}, False, 1),
            User(text, 1),
            User([Text(text), image], 1),
            BashExecution("ls", text, 0, False, False, 1),
            Custom("kind", text, True, 1),
            CompactionSummary(text, 1, 1),
        )
        chosen: StoredMessage = self.choice(kinds)
        return chosen

    def turn(self) -> list[StoredMessage]:
        """An answer and the results of its calls, of which some are missing."""
        answer = self.answer()
        results = [
            ToolResult(call.id, call.name, [Text("done")], {}, False, 1)
            for call in answer.tool_calls
            if self.random() < 0.8
        ]
        return [answer, *results]


@pytest.mark.parametrize("seed", range(300))
def test_a_reused_beginning_changes_no_request(seed: int) -> None:
    chance, prefix = Chance(seed), RequestPrefix()
    messages: list[StoredMessage] = [User("go", 1)]
    model, block_images = MODEL, False
    for _ in range(12):
        match chance.randrange(8):
            case 0:
                del messages[chance.randrange(len(messages) + 1) :]  # another branch
            case 1:
                model = chance.choice((MODEL, OTHER))
            case 2:
                block_images = not block_images
            case 3 | 4:
                messages += [chance.message() for _ in range(chance.randrange(1, 4))]
            case _:
                messages += chance.turn()
        expected = body(messages, model, None, block_images=block_images)
        assert body(messages, model, prefix, block_images=block_images) == expected


def answer(call: str, stop: Any = "toolUse") -> Assistant:
    return Assistant([ToolCall(call, "bash", {})], MODEL.api, MODEL.provider, MODEL.id, Usage(), stop, 1)


def result(call: str) -> ToolResult:
    return ToolResult(call, "bash", [Text("done")], {}, False, 1)


HARD: dict[str, list[list[StoredMessage]]] = {
    "a failed answer between a call and its result": [
        [User("go", 1), first := answer("a"), answer("b", "error"), result("a"), User("more", 1)],
    ],
    "a result in place of the next answer": [
        [go := User("go", 1), first, answer("b")],
        [go, first, result("a"), User("more", 1)],
    ],
    "the same id in both parts": [
        [go, first, result("a"), again := answer("a"), result("a")],
        [go, first, result("a"), again, result("a"), answer("a")],
    ],
    "an answer without content at the end": [
        [go, first, done := result("a"), replace(first, content=[])],
        [go, first, done, replace(first, content=[]), replace(first, content=[Text(" ")])],
    ],
}


@pytest.mark.parametrize("case", HARD)
def test_a_reused_beginning_changes_no_request_in_hard_cases(case: str) -> None:
    prefix = RequestPrefix()
    for messages in HARD[case]:
        expected = body(messages, MODEL, None, block_images=False)
        assert body(messages, MODEL, prefix, block_images=False) == expected


def turns(count: int) -> list[StoredMessage]:
    found: list[StoredMessage] = [User("go", 1)]
    for at in range(count):
        call = ToolCall(f"c{at}", "bash", {"command": "x" * 100})
        found.append(Assistant([call], MODEL.api, MODEL.provider, MODEL.id, Usage(), "toolUse", 1))
        found.append(ToolResult(call.id, "bash", [Text("y" * 100)], {}, False, 1))
    return found


class Counted(ProviderMessages):
    converted = 0

    def part(self, sources: Any, used_ids: set[str]) -> Any:
        part = list(sources)
        Counted.converted += len(part)
        return super().part(part, used_ids)


def test_a_turn_converts_a_few_messages_however_long_the_conversation_is() -> None:
    prefix, messages = RequestPrefix(), turns(500)
    for more in range(3):
        Counted.converted = 0
        sent = Counted(messages[: 995 + 2 * more], MODEL)
        request(MODEL, ModelContext("", sent, (), {"prefix": prefix}), CallOptions(None))
    assert Counted.converted == 4


def test_a_large_conversation_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_prefix, "MAX_PREFIX_BYTES", 10_000)
    prefix, messages = RequestPrefix(), turns(1_000)
    for count in (11, 2_001, 13, 2_001):
        expected = body(messages[:count], MODEL, None, block_images=False)
        assert body(messages[:count], MODEL, prefix, block_images=False) == expected
        assert sum(map(len, prefix._parts)) <= 10_000


def test_a_message_that_cannot_be_encoded_leaves_no_half_of_a_prefix() -> None:
    deep: Any = []
    for _ in range(2_000):
        deep = [deep]
    messages = turns(3)
    bad = Assistant([ToolCall("z", "bash", {"a": deep})], MODEL.api, MODEL.provider, MODEL.id, Usage(), "toolUse", 1)
    prefix = RequestPrefix()
    body(messages, MODEL, prefix, block_images=False)
    with pytest.raises((BadRecord, RecursionError)):
        body([*messages, bad, *turns(1)[1:]], MODEL, prefix, block_images=False)
    assert body(messages, MODEL, prefix, block_images=False) == body(messages, MODEL, None, block_images=False)
