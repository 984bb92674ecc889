"""Models that an extension asks: it is handed the conversation and sends the pieces of the answer.

A piece is an object with a `type`: text and thinking have a `delta`, tool_call is
whole, usage counts tokens, done ends the answer. Text that follows text is the same
block. Without done, the answer is whole when the extension has nothing more to say.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, Literal

from tau.core.agent.draft import Done, Draft
from tau.errors import ModelError
from tau.llm.types import Context, Fact, Options, World, output_limit
from tau.records.base import UNSET, BadRecord, Record, UnsetType, decode, encode, plain
from tau.records.messages import Usage
from tau.records.models import Model

STREAM = "extension-stream"
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


Said = TextPiece | ThinkingPiece | CallPiece | UsagePiece | DonePiece


async def pieces(
    model: Model, context: Context, options: Options, draft: Draft, world: World
) -> AsyncGenerator[Sequence[Fact], None]:
    if world.streams is None:
        raise ModelError(f"The extension that answers for {model.provider} is not there.", transient=True)
    reader = Reader(draft)
    async with aclosing(world.streams.stream(model.provider, params(model, context, options))) as portions:
        async for portion in portions:
            facts = reader.read(portion)
            yield facts
            if facts and isinstance(facts[-1], Done):
                return
    yield reader.end()


def params(model: Model, context: Context, options: Options) -> dict[str, Any]:
    tools = [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in context.tools
    ]
    asked = {
        "thinkingLevel": options.thinking,
        "maxTokens": output_limit(model, options),
        "sessionId": options.session_id,
        "apiKey": None if options.secret == NO_KEY else options.secret,
    }
    messages = [plain(message) for message in context.messages]
    said = {"system": context.system, "messages": messages, "tools": tools}
    return {"model": plain(model), "context": said, "options": asked}


class Reader:
    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._open: tuple[str, int] | None = None  # the kind of the block that goes on, and its number

    def read(self, portion: Any) -> list[Fact]:
        """Raises ModelError for what is no piece; what came before it is in the draft."""
        facts: list[Fact] = []
        try:
            for said in decode(list[Said], encode(portion)):
                facts += self._piece(said)
                if facts and isinstance(facts[-1], Done):
                    break
        except (BadRecord, TypeError) as error:
            raise ModelError(f"The extension sent what is no piece of an answer: {error}", transient=False) from None
        return facts

    def end(self) -> list[Fact]:
        return [*self._closed(), *self._draft.done("toolUse" if self._draft.calls else "stop")]

    def _piece(self, said: Said) -> list[Fact]:
        draft = self._draft
        match said:
            case TextPiece(delta=delta):
                return self._more("text", delta)
            case ThinkingPiece(delta=delta, signature=signature):
                facts = self._more("thinking", delta)
                if signature:
                    draft.sign(draft.blocks - 1, signature)
                return facts
            case CallPiece(name=name, id=id, arguments=arguments):
                facts = [*self._closed(), draft.open_call(draft.call_id(id, name), name)]
                text = arguments if isinstance(arguments, str) else encode(arguments).decode()
                return [*facts, draft.add(draft.blocks - 1, text), draft.close(draft.blocks - 1)]
            case UsagePiece():
                draft.note(usage=Usage(said.input, said.output, said.cache_read, said.cache_write))
                return []
            case DonePiece(stop_reason=reason):
                return self.end() if reason is UNSET else [*self._closed(), *draft.done(reason)]

    def _more(self, kind: Literal["text", "thinking"], delta: str) -> list[Fact]:
        facts: list[Fact] = []
        if self._open is None or self._open[0] != kind:
            facts = [*self._closed(), self._draft.open(kind)]
            self._open = kind, self._draft.blocks - 1
        return [*facts, self._draft.add(self._open[1], delta)]

    def _closed(self) -> list[Fact]:
        if self._open is None:
            return []
        (_, index), self._open = self._open, None
        return [self._draft.close(index)]
