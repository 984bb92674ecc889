"""Answers of all APIs as their servers might send them: the same answer, with changes that must not matter.

MUTATIONS lists the changes. A needed field (`Dialect.needed`) is never touched, and only independent events are
reordered, so every mutated stream says the same as the original one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from support.recorded_streams import Reading
from support.stream_dialects import Dialect, Event
from tau.core.agent.draft import MessageDone
from tau.errors import ModelError
from tau.llm import apis
from tau.records.messages import Assistant, ToolCall

JUNK: tuple[Any, ...] = (5, -1, 1.5, "x", "", True, [], {}, [5], {"a": None}, ["x", {"y": []}])


@dataclass
class Stream:
    dialect: Dialect
    events: list[Event]
    is_mixed: bool = False  # events of several blocks are mixed: what identifies a block is needed
    names: bool = True  # the lines `event:` are sent
    applied: list[str] = field(default_factory=list)

    def chunks(self) -> list[bytes]:
        return [self.dialect.pack(event, self.names) for event in self.events]

    def read(self) -> MessageDone:
        api = apis.load_api(self.dialect.api)
        return Reading(api, self.dialect.model, self.chunks()).end().done


def original(dialect: Dialect) -> Stream:
    return Stream(dialect, dialect.events())


def mutated(dialect: Dialect, random: Random) -> Stream:
    stream = original(dialect)
    for _ in range(random.randint(1, 6)):
        name = random.choice(list(MUTATIONS))
        stream.applied.append(name)
        MUTATIONS[name](stream, random)
    return stream


def said(message: Assistant) -> tuple[Any, ...]:
    """What must stay the same: everything but usage and the id of the response."""
    return message.content, message.stop_reason


def problem(dialect: Dialect, random: Random) -> str | None:
    """What is wrong with the reading of one mutated stream, also if it is cut off somewhere."""
    wanted = original(dialect).read().message
    stream = mutated(dialect, random)
    try:
        done = stream.read()
    except ModelError as error:
        return f"{stream.applied}: {error}"
    if said(done.message) != said(wanted) or done.unreadable:
        return f"{stream.applied}: {said(done.message)} instead of {said(wanted)}"
    stream.events = stream.events[: random.randrange(len(stream.events))]
    try:
        cut = stream.read()
    except ModelError:
        return None
    wrong = [call for call in runnable(cut) if call not in wanted.tool_calls]
    return f"{stream.applied}, cut: {wrong} would run" if wrong else None


def runnable(done: MessageDone) -> list[ToolCall]:
    return [call for at, call in enumerate(done.message.tool_calls) if at not in done.unreadable]


def add_field(stream: Stream, random: Random) -> None:
    event = random.choice(stream.events)
    random.choice(list(_objects(event.data, stream.dialect)))[f"vendor_{random.randrange(9)}"] = _junk(random)


def drop_field(stream: Stream, random: Random) -> None:
    if places := list(_touchable(stream, random.choice(stream.events))):
        parent, key, _ = random.choice(places)
        del parent[key]


def null_field(stream: Stream, random: Random) -> None:
    if places := list(_touchable(stream, random.choice(stream.events))):
        parent, key, _ = random.choice(places)
        parent[key] = None


def retype_field(stream: Stream, random: Random) -> None:
    """A number that identifies a block may come as a string; other fields may be anything."""
    if places := list(_touchable(stream, random.choice(stream.events))):
        parent, key, path = random.choice(places)
        if path in stream.dialect.order:
            parent[key] = str(parent[key])
        elif path not in stream.dialect.kinds:
            parent[key] = _junk(random)


def add_event(stream: Stream, random: Random) -> None:
    unknown = Event(f"vendor.{random.randrange(9)}", {"type": f"vendor.{random.randrange(9)}", "x": _junk(random)})
    stream.events.insert(random.randrange(len(stream.events)), unknown)


def keep_alive(stream: Stream, random: Random) -> None:
    stream.events.insert(random.randrange(len(stream.events)), Event("", {}))


def drop_event(stream: Stream, random: Random) -> None:
    if places := [at for at, event in enumerate(stream.events) if event.optional]:
        del stream.events[random.choice(places)]


def move_event(stream: Stream, random: Random) -> None:
    if places := [at for at, event in enumerate(stream.events) if event.movable]:
        event = stream.events.pop(random.choice(places))
        stream.events.insert(random.randrange(len(stream.events)), event)


def mix_blocks(stream: Stream, random: Random) -> None:
    """Swap neighbours of different blocks. The first events of blocks keep their order: it is that of the answer."""
    if any(_lacks_order(stream.dialect, event) for event in stream.events):
        return
    for at in random.choices(range(1, len(stream.events)), k=30):
        one, other = stream.events[at - 1], stream.events[at]
        if None in (one.block, other.block) or one.block == other.block or one.is_first or other.is_first:
            continue
        stream.events[at - 1 : at + 1] = [other, one]
        stream.is_mixed = True


def cut_piece(stream: Stream, random: Random) -> None:
    """Send one delta as two."""
    at = random.randrange(len(stream.events))
    for path in stream.dialect.deltas:
        found = _at(stream.events[at].data, path)
        if found is not None and isinstance(found[0][found[1]], str) and len(found[0][found[1]]) > 1:
            text = found[0][found[1]]
            cut = random.randrange(1, len(text))
            first, second = copy.deepcopy(stream.events[at]), copy.deepcopy(stream.events[at])
            second.is_first = False
            for event, piece in ((first, text[:cut]), (second, text[cut:])):
                parent, key = _at(event.data, path) or ({}, "")
                parent[key] = piece
            stream.events[at : at + 1] = [first, second]
            return


def omit_event_names(stream: Stream, random: Random) -> None:
    """Leave out the lines `event:`, if every event has its type."""
    if all(event.data.get("type") for event in stream.events if event.name):
        stream.names = False


MUTATIONS: dict[str, Callable[[Stream, Random], None]] = {
    "an unknown field is added": add_field,
    "a field is missing": drop_field,
    "a field is null": null_field,
    "a field has another type": retype_field,
    "an unknown event is added": add_event,
    "an event without data is added": keep_alive,
    "an event is missing": drop_event,
    "an event comes earlier or later": move_event,
    "events of several blocks are mixed": mix_blocks,
    "a delta comes in two pieces": cut_piece,
    "events have no names": omit_event_names,
}


def _junk(random: Random) -> Any:
    return copy.deepcopy(random.choice(JUNK))


def _walk(value: Any, path: str = "") -> Iterator[tuple[Any, Any, str]]:
    """Every field: the object or list it is in, its key, and its path."""
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        here = f"{path}.{'*' if isinstance(value, list) else key}".lstrip(".")
        yield value, key, here
        yield from _walk(inner, here)


def _touchable(stream: Stream, event: Event) -> Iterator[tuple[Any, Any, str]]:
    """The fields that are not needed and contain none that is needed."""
    dialect = stream.dialect
    kept = dialect.needed | (dialect.order if stream.is_mixed else frozenset())
    kept |= dialect.kinds if not stream.names else frozenset()
    for parent, key, path in _walk(event.data):
        if not isinstance(parent, dict) or key.startswith("vendor_"):
            continue
        inside = {path, *(inner for _, _, inner in _walk(parent[key], path))}
        if not inside & kept and not path.startswith(dialect.own or "?"):
            yield parent, key, path


def _objects(data: dict[str, Any], dialect: Dialect) -> Iterator[dict[str, Any]]:
    """The objects that may get another field: not those that are the answer's own, like arguments."""
    yield data
    for parent, key, path in _walk(data):
        if isinstance(parent[key], dict) and not path.startswith(dialect.own):
            yield parent[key]


def _at(data: dict[str, Any], path: str) -> tuple[Any, Any] | None:
    return next(((parent, key) for parent, key, here in _walk(data) if here == path), None)


def _lacks_order(dialect: Dialect, event: Event) -> bool:
    if event.block is None:
        return False
    return bool(dialect.order) and all(
        found is None or found[0][found[1]] is None for found in (_at(event.data, path) for path in dialect.order)
    )
