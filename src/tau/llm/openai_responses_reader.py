"""Reader of OpenAI Responses answers. No I/O.

Servers identify the item of an event by its `output_index`, by `item_id`, by both, or by neither: then it is the item
that was started last. Ids may change between the events of one item, and some servers give every item the same index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tau.core.agent.draft import Draft
from tau.errors import ModelError
from tau.llm.event_fields import (
    END_MARK,
    BadField,
    as_id,
    as_index,
    as_object,
    as_objects,
    as_text,
    dispatch,
    optional_text,
    prompt_counts,
    require_object,
    require_text,
    server_error,
    token_count,
)
from tau.llm.types import ModelResult
from tau.records.base import encode
from tau.records.messages import Usage

PART_SEPARATOR = "\n\n"  # separates parts of reasoning
# Price factor of a service tier.
TIERS = {"flex": 0.5, "priority": 2.0}
LENGTH_REASONS = ("max_output_tokens", "max_tokens", "length")


@dataclass
class Item:
    """An item of the output that is being streamed."""

    kind: str
    index: int | None
    id: str
    place: int
    initial_arguments: str | None = None  # arguments in the start of a call, used unless others follow
    part: Any = None  # current part of the reasoning
    has_parts: bool = False
    is_closed: bool = False


class Reader:
    """Converts the events of one response to results."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._items: list[Item] = []
        self._ignored: set[int | str | None] = set()  # indexes and ids of items of unknown types
        self._early_arguments: list[tuple[int | None, str, str]] = []  # arguments that came before their call

    def read(self, event: str, data: str) -> Sequence[ModelResult]:
        return self.end() if data.strip() == END_MARK else dispatch(self, HANDLERS, event, data)

    def end(self) -> Sequence[ModelResult]:
        raise ModelError("The stream ended before a terminal response event.", transient=True)

    def _created(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        self._draft.set_usage(response_id=as_text(as_object(event.get("response")).get("id")) or None)
        return ()

    def _find(self, event: dict[str, Any], kind: str) -> Item | None:
        """The item of this kind that an event belongs to; None if it was not started."""
        index, id = as_index(event.get("output_index")), _item_id(event)
        items = [item for item in reversed(self._items) if item.kind == kind]
        for item in items:
            if id and item.id == id and (index is None or item.index in (None, index)):
                return item
        if index is not None:
            return next((item for item in items if item.index == index), None)
        unclosed = [item for item in items if not item.is_closed]
        if id and len(unclosed) > 1 and kind == "function_call":
            raise BadField(f"there is no function call with the id {id}")
        return unclosed[0] if unclosed else None

    def _item_added(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        item = require_object(event.get("item"), "item")
        kind, place = item.get("type"), self._draft.block_count
        require_text(kind, "item.type")
        index, id = as_index(event.get("output_index")), _item_id(event)
        if id and any((item.kind, item.index, item.id) == (kind, index, id) for item in self._items):
            return ()  # sent twice
        opened: ModelResult
        match kind:
            case "message":
                opened = self._draft.open("text")
            case "reasoning":
                opened = self._draft.open("thinking")
            case "function_call":
                opened = self._open_call(item)
            case _:  # an unknown type of item that was not requested
                self._ignored.update((index, id))
                return ()
        started = Item(str(kind), index, id, place)
        self._items.append(started)
        if kind != "function_call":
            return [opened]
        started.initial_arguments = _arguments_text(item.get("arguments"))
        return [opened, *self._claim_early_arguments(started)]

    def _open_call(self, item: dict[str, Any]) -> ModelResult:
        name = require_text(item.get("name"), "item.name")
        call, made = as_id(item.get("call_id")), as_id(item.get("id"))
        return self._draft.open_call(self._draft.call_id(f"{call}|{made}" if call and made else call, name), name)

    def _claim_early_arguments(self, item: Item) -> list[ModelResult]:
        own = [
            (index, id, piece)
            for index, id, piece in self._early_arguments
            if (id and id == item.id) or (index is not None and index == item.index)
        ]
        self._early_arguments = [early for early in self._early_arguments if early not in own]
        if own:
            item.initial_arguments = None
        return [self._draft.add(item.place, piece) for _, _, piece in own]

    def _text(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        return self._write(event, "message")

    def _thought(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        """Parts of reasoning are separated by an empty line."""
        return self._write(event, "reasoning", event.get("summary_index", event.get("content_index", 0)))

    def _write(self, event: dict[str, Any], kind: str, part: Any = None) -> Sequence[ModelResult]:
        """Add a delta. If the server omitted the start of the item, it opens with its first delta."""
        if event.get("delta", "") is None:
            return ()
        delta = require_text(event.get("delta"), "delta")
        opened: Sequence[ModelResult] = ()
        item = self._find(event, kind)
        if item is None:
            if {as_index(event.get("output_index")), _item_id(event)} & self._ignored - {None, ""}:
                return ()
            opened = self._item_added({**event, "item": {"type": kind, "id": event.get("item_id")}})
            item = self._items[-1]
        if item.is_closed:
            return ()
        between: list[ModelResult] = []
        if kind == "reasoning":
            if item.has_parts and item.part != part:
                between.append(self._draft.add(item.place, PART_SEPARATOR))
            item.part, item.has_parts = part, True
        return [*opened, *between, self._draft.add(item.place, delta)]

    def _summary_done(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        if (item := self._find(event, "reasoning")) is not None:
            item.part = None
        return ()

    def _arguments(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        """Some servers start with an empty object and send the arguments later."""
        if event.get("delta", "") is None:
            return ()
        delta = require_text(event.get("delta"), "delta")
        item = self._find(event, "function_call")
        if item is None:
            self._early_arguments.append((as_index(event.get("output_index")), _item_id(event), delta))
            return ()
        if item.is_closed:
            return ()
        if item.initial_arguments is not None and delta.strip() == "{}":
            item.initial_arguments = item.initial_arguments or delta
            return ()
        if delta.strip():
            item.initial_arguments = None
        return [self._draft.add(item.place, delta)]

    def _arguments_done(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        item = self._find(event, "function_call")
        if item is None or item.is_closed:
            return ()
        return self._rest(item.place, _arguments_text(event.get("arguments")))

    def _rest(self, place: int, text: str) -> list[ModelResult]:
        """The part of an item's final text that was not streamed."""
        missing = self._draft.missing_tail(place, text)
        return [self._draft.add(place, missing)] if missing else []

    def _item_done(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        content = require_object(event.get("item"), "item")
        found = self._find(event, require_text(content.get("type"), "item.type"))
        results: list[ModelResult] = []
        if found is None or (found.is_closed and "" not in (found.id, id := _item_id(event)) and found.id != id):
            results += self._item_added(event)
            found = self._items[-1] if results else None
        if found is None or found.is_closed:
            return results
        found.is_closed = True
        if found.kind == "function_call":
            text = _arguments_text(content.get("arguments")) or found.initial_arguments or ""
        elif found.kind == "reasoning":
            self._draft.add_signature(found.place, encode(content).decode())
            parts = as_objects(content.get("summary")) or as_objects(content.get("content"))
            text = PART_SEPARATOR.join(as_text(part.get("text")) for part in parts)
        else:
            self._draft.add_signature(found.place, _signature(content))
            parts = as_objects(content.get("content"))
            text = "".join(as_text(part.get("text")) or as_text(part.get("refusal")) for part in parts)
        return [*results, *self._rest(found.place, text), self._draft.close(found.place)]

    def _completed(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        response = as_object(event.get("response"))
        if response.get("status") == "incomplete":
            return self._incomplete(event)
        if response.get("status") == "failed":
            return self._failed(event)
        self._count(response)
        self._draft.set_raw_stop_reason("completed")
        results = [*self._unclosed(response)]
        if any(piece.strip() for _, _, piece in self._early_arguments):
            raise BadField("there are arguments of a call that was not started")
        return [*results, *self._draft.finish("toolUse" if self._draft.call_count else "stop")]

    def _unclosed(self, response: dict[str, Any]) -> Iterator[ModelResult]:
        """Close items that the server left open, from the final response if it contains them."""
        output = as_objects(response.get("output"))
        if not self._items:
            for content in output:
                yield from self._item_done({"item": content})
        for item in [item for item in self._items if not item.is_closed]:
            if (final := _final_content(item, output)) is not None:
                yield from self._item_done({"output_index": item.index, "item_id": item.id, "item": final})
            else:
                yield from self._rest(item.place, item.initial_arguments or "")

    def _incomplete(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        response = as_object(event.get("response"))
        self._count(response)
        reason = as_object(response.get("incomplete_details")).get("reason")
        self._draft.set_raw_stop_reason(f"incomplete.{reason}" if reason else "incomplete")
        if reason in LENGTH_REASONS:
            return self._draft.finish("length")
        raise ModelError(f"The answer is incomplete (reason: {reason}).", transient=False)

    def _failed(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        response = as_object(event.get("response"))
        self._count(response)
        raise server_error(response.get("error") or event)

    def _error(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        raise server_error(event)

    def _count(self, response: dict[str, Any]) -> None:
        usage = response.get("usage")
        if not isinstance(usage, dict):
            return
        details = as_object(usage.get("input_tokens_details"))
        read, written = token_count(details.get("cached_tokens")), token_count(details.get("cache_write_tokens"))
        fresh, read, written = prompt_counts(token_count(usage.get("input_tokens")), read, written)
        times = TIERS.get(as_text(response.get("service_tier")), 1)
        thought = token_count(as_object(usage.get("output_tokens_details")).get("reasoning_tokens"))
        output = token_count(usage.get("output_tokens"))
        self._draft.set_usage(usage=Usage(fresh, output, read, written, reasoning=thought), times=times)


def _final_content(item: Item, output: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The content of an item in the final response: found by its index if the id there is not another's, else by id."""
    at = [output[item.index]] if item.index is not None and 0 <= item.index < len(output) else []
    same_index = [content for content in at if "" in (item.id, id := as_id(content.get("id"))) or id == item.id]
    same_id = [content for content in output if item.id and as_id(content.get("id")) == item.id]
    return next((content for content in (*same_index, *same_id) if content.get("type") == item.kind), None)


def _item_id(event: dict[str, Any]) -> str:
    return as_id(event.get("item_id")) or as_id(as_object(event.get("item")).get("id"))


def _arguments_text(arguments: Any) -> str:
    """Arguments are JSON in a string; some servers send the object itself."""
    if isinstance(arguments, dict):
        return encode(arguments).decode()
    return optional_text(arguments, "arguments")


def _signature(item: dict[str, Any]) -> str:
    id, phase = as_id(item.get("id")), item.get("phase")
    return encode({"v": 1, "id": id, "phase": phase}).decode() if isinstance(phase, str) else id


HANDLERS: dict[str, Callable[[Reader, dict[str, Any]], Sequence[ModelResult]]] = {
    "response.created": Reader._created,
    "response.output_item.added": Reader._item_added,
    "response.output_text.delta": Reader._text,
    "response.refusal.delta": Reader._text,
    "response.reasoning_summary_text.delta": Reader._thought,
    "response.reasoning_summary_part.done": Reader._summary_done,
    "response.reasoning_text.delta": Reader._thought,
    "response.function_call_arguments.delta": Reader._arguments,
    "response.function_call_arguments.done": Reader._arguments_done,
    "response.output_item.done": Reader._item_done,
    "response.completed": Reader._completed,
    "response.done": Reader._completed,
    "response.incomplete": Reader._incomplete,
    "response.failed": Reader._failed,
    "error": Reader._error,
}
