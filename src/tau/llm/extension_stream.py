"""Models that an extension calls: it receives the conversation and sends the chunks of the answer.

A chunk is an object with a `type`: text and thinking have a `delta`, tool_call is complete, usage counts tokens, done
ends the answer. Consecutive text belongs to the same block. Without done, the answer is complete when the extension's
stream ends.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, Literal

from tau.core.agent.draft import Draft, MessageDone
from tau.errors import ModelError
from tau.llm.types import CallEnvironment, CallOptions, ExtensionApi, ModelContext, ModelResult, output_limit
from tau.records.base import UNSET, BadRecord, Record, UnsetType, decode, encode, to_builtins
from tau.records.messages import Usage
from tau.records.models import Model

API_NAME = "extension-stream"
NO_KEY = "<of the extension>"


class Piece(Record, tag_field="type"):
    pass


class TextPiece(Piece, tag="text"):
    delta: str


class ThinkingPiece(Piece, tag="thinking"):
    delta: str = ""
    signature: str = ""


class CallPiece(Piece, tag="tool_call"):
    name: str
    id: str = ""
    arguments: dict[str, Any] | str = {}


class UsagePiece(Piece, tag="usage"):
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0


class DonePiece(Piece, tag="done"):
    stop_reason: Literal["stop", "length", "toolUse"] | UnsetType = UNSET


AnyStreamEvent = TextPiece | ThinkingPiece | CallPiece | UsagePiece | DonePiece


async def stream(
    model: Model, context: ModelContext, options: CallOptions, draft: Draft, world: CallEnvironment
) -> AsyncGenerator[Sequence[ModelResult], None]:
    if world.streams is None:
        raise ModelError(f"The extension that answers for {model.provider} is not running.", transient=True)
    reader = Reader(draft)
    async with aclosing(world.streams.stream(model.provider, params(model, context, options))) as chunks:
        async for chunk in chunks:
            results = reader.read(chunk)
            yield results
            if results and isinstance(results[-1], MessageDone):
                return
    yield reader.end()


def params(model: Model, context: ModelContext, options: CallOptions) -> dict[str, Any]:
    tools = [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in context.tools
    ]
    call_options = {
        "thinkingLevel": options.thinking,
        "maxTokens": output_limit(model, options),
        "sessionId": options.session_id,
        "apiKey": None if options.secret == NO_KEY else options.secret,
    }
    messages = [to_builtins(message) for message in context.messages]
    call_context = {"system": context.system, "messages": messages, "tools": tools}
    return {"model": to_builtins(model), "context": call_context, "options": call_options}


class Reader:
    """Converts chunks of an extension to results."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._open: tuple[str, int] | None = None  # kind and index of the open block

    def read(self, chunk: Any) -> list[ModelResult]:
        """Raises ModelError for an invalid chunk; the draft contains what came before it."""
        results: list[ModelResult] = []
        try:
            for event in decode(list[AnyStreamEvent], encode(chunk)):
                results += self._event(event)
                if results and isinstance(results[-1], MessageDone):
                    break
        except (BadRecord, TypeError) as error:
            raise ModelError(f"The extension sent an invalid chunk of an answer: {error}", transient=False) from None
        return results

    def end(self) -> list[ModelResult]:
        return [*self._close(), *self._draft.finish("toolUse" if self._draft.call_count else "stop")]

    def _event(self, event: AnyStreamEvent) -> list[ModelResult]:
        draft = self._draft
        match event:
            case TextPiece(delta=delta):
                return self._add("text", delta)
            case ThinkingPiece(delta=delta, signature=signature):
                results = self._add("thinking", delta)
                if signature:
                    draft.add_signature(draft.block_count - 1, signature)
                return results
            case CallPiece(name=name, id=id, arguments=arguments):
                results = [*self._close(), draft.open_call(draft.call_id(id, name), name)]
                text = arguments if isinstance(arguments, str) else encode(arguments).decode()
                return [*results, draft.add(draft.block_count - 1, text), draft.close(draft.block_count - 1)]
            case UsagePiece():
                draft.set_usage(usage=Usage(event.input, event.output, event.cache_read, event.cache_write))
                return []
            case DonePiece(stop_reason=reason):
                return self.end() if reason is UNSET else [*self._close(), *draft.finish(reason)]

    def _add(self, kind: Literal["text", "thinking"], delta: str) -> list[ModelResult]:
        results: list[ModelResult] = []
        if self._open is None or self._open[0] != kind:
            results = [*self._close(), self._draft.open(kind)]
            self._open = kind, self._draft.block_count - 1
        return [*results, self._draft.add(self._open[1], delta)]

    def _close(self) -> list[ModelResult]:
        if self._open is None:
            return []
        (_, index), self._open = self._open, None
        return [self._draft.close(index)]


API = ExtensionApi(stream)
