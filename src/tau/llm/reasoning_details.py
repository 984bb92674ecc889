"""`reasoning_details` of chat completions: the reasoning of models behind gateways (OpenRouter, Vercel). No I/O.

A provider accepts reasoning only as it was sent, signed or encrypted. So the details are kept complete and in order, as
a JSON array in the signature of the first block of thinking, where pi keeps them too.
"""

from __future__ import annotations

from typing import Any

from tau.core.conversation.provider_messages import strip_surrogates_in
from tau.llm.event_fields import as_text
from tau.records.base import BadRecord, encode, parse
from tau.records.messages import Assistant, Thinking

# The field that comes in pieces, by the type of a detail. Details of other types come whole.
STREAMED = {"reasoning.text": "text", "reasoning.summary": "summary"}


class ReasoningDetails:
    """The details of an answer that is being streamed: pieces of one detail are joined."""

    def __init__(self) -> None:
        self._details: list[dict[str, Any]] = []
        self._pieces: list[str] = []  # of the last detail

    def __bool__(self) -> bool:
        return bool(self._details)

    def add(self, detail: dict[str, Any]) -> str:
        """Add a piece of a detail, and return the text that it shows."""
        field = STREAMED.get(as_text(detail.get("type")), "")
        piece = as_text(detail.get(field)) if field else ""
        if field and self._details and _continues(self._details[-1], detail, piece):
            last = self._details[-1]
            for name, value in detail.items():
                if value and name != field:
                    last[name] = value
        else:
            self._join_pieces()
            self._details.append({**detail})
        if piece:
            self._pieces.append(piece)
        return piece

    def signature(self) -> str:
        self._join_pieces()
        return encode(self._details).decode()

    def _join_pieces(self) -> None:
        if self._pieces:
            last = self._details[-1]
            last[STREAMED[last["type"]]] = "".join(self._pieces)
            self._pieces = []


def _continues(last: dict[str, Any], detail: dict[str, Any], piece: str) -> bool:
    """True if `detail` is a piece of `last`. A signature ends a detail; a server may omit indexes and ids."""
    if last.get("type") != detail["type"] or (last.get("signature") and (piece or detail.get("signature"))):
        return False
    return _agree(last.get("index"), detail.get("index")) and _agree(last.get("id"), detail.get("id"))


def _agree(first: Any, second: Any) -> bool:
    return first == second or first is None or second is None


def details_of(message: Assistant) -> list[Any]:
    """The details of an answer. Older sessions have those that belong to a call in the signature of the call."""
    thoughts = [block.thinking_signature for block in message.content if isinstance(block, Thinking)]
    kept = [detail for signature in thoughts for detail in _parsed(signature, list) or ()]
    return kept or [detail for call in message.tool_calls if (detail := _parsed(call.thought_signature, dict))]


def _parsed(signature: Any, kind: type) -> Any:
    """The JSON value of a signature, None if it is not of this kind."""
    try:
        value = parse(signature.encode("utf-8", "surrogatepass")) if signature else None
    except BadRecord:
        return None
    return strip_surrogates_in(value) if isinstance(value, kind) else None
