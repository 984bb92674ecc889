"""What a version of the protocol is made of: tables that say how it differs from what the program speaks inside.

Inside, tau speaks a superset of all versions. At the edge, a dialect leaves a
kind of event out, or makes another record of it; whatever it has no form for
goes out as it is, and nothing is looked up in it. So the default costs nothing,
and a record in a table is also what the schema of the dialect is made of.

    event        to the client     events, forms of which stand in `events` (and `json_events` in JSON mode)
    update       to the client     the pieces of an answer: with the message so far, or without it
    reply        to the client     the data of a response
    instead      to the client     what is said where there are no responses
    kind, filled from the client   the command that a name means, and what it says where the client says nothing

No other code asks which dialect is spoken. What a dialect changes in how the
program works, it changes as the default of a setting (`defaults`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

from tau.records import base, commands, events
from tau.records.base import UNSET, Record, Value, derived, field, replace
from tau.records.events import Event, event_json


class Form(Value):
    """How one thing is said: the kinds of record that may come of it, and how they are made."""

    makes: tuple[Any, ...]
    make: Callable[[Any], Any]


class Answers(Value):
    """Where there are no responses: what is said instead, given the command's name, its data and its error."""

    makes: tuple[Any, ...]
    make: Callable[[str, Any, Any], Sequence[Record]]


LEFT_OUT = Form((), lambda event: ())
NO_DATA = Form((), lambda data: UNSET)
COMMANDS: dict[str, type[commands.Command]] = {
    str(kind.__struct_config__.tag): kind for kind in get_args(commands.AnyCommand)
}
EVENTS: tuple[type[Event], ...] = get_args(events.AnyEvent)


def form(kind: type[Record], wanted: Any, renamed: Mapping[str, str] | None = None) -> Form:
    """What `wanted` has of the fields of `kind`, as one event; `renamed` has the names that differ."""
    ours = {theirs: name for name, theirs in (renamed or {}).items()}
    names = [ours.get(name, name) for name in wanted.__struct_fields__]
    return Form((wanted,), lambda event: (wanted(*[getattr(event, name) for name in names]),))


def without(kind: type[Record], *names: str) -> Form:
    """The same event with fewer fields."""
    return form(kind, derived(kind, without=names))


def reply_without(kind: type[Record], *names: str) -> Form:
    """The same for the data of a response."""
    fewer = form(kind, derived(kind, without=names))
    return Form(fewer.makes, lambda data: fewer.make(data)[0] if isinstance(data, kind) else data)


class Dialect(Value):
    name: str
    about: str
    pi: str  # the release of pi that speaks like this: what `pi --version` prints
    snapshots: bool = True  # message_update has the whole message so far, twice
    extras: bool = True  # message_update has `usage`, and toolcall_start the name of the tool
    responses: bool = True
    dialogs: bool = True  # clients know `extension_ui_request`, and can answer it
    session_line: bool = True  # JSON mode begins with the header of the session
    events: Mapping[type[Event], Form] = field(default_factory=dict)
    json_events: Mapping[type[Event], Form] = field(default_factory=dict)
    replies: Mapping[type[commands.Command], Form] = field(default_factory=dict)
    answers: Answers | None = None
    lacks: frozenset[type[commands.Command]] = frozenset()
    names: Mapping[str, type[commands.Command]] = field(default_factory=dict)  # older names of commands
    fills: Mapping[type[commands.Command], Mapping[str, Any]] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)  # as they would stand in a settings file

    def but(self, name: str, about: str, pi: str, **changes: Any) -> Dialect:
        """A neighbour: tables are added to, and what stands in both is the neighbour's."""
        merged: dict[str, Any] = {
            key: {**getattr(self, key), **value} if isinstance(value, dict) else value for key, value in changes.items()
        }
        return replace(self, name=name, about=about, pi=pi, **merged)

    # To the client.

    def event(self, event: Event) -> list[bytes]:
        """The lines that an event becomes, without newlines; often the one it is, sometimes none."""
        found = self.events.get(type(event))
        if found is None:
            return [event_json(event)]
        return [event_json(made) for made in found.make(event)]

    def made(self, event: Any) -> Sequence[Any]:
        """The same as records: for events that may be replaced while they wait."""
        found = self.events.get(type(event))
        return (event,) if found is None else found.make(event)

    def for_json(self) -> Dialect:
        """The same as it is spoken in JSON mode."""
        return replace(self, events={**self.events, **self.json_events}, json_events={}) if self.json_events else self

    def reply(self, kind: type[commands.Command], data: Any) -> Any:
        """The data of a response: a record, None for null, UNSET for none."""
        found = self.replies.get(kind)
        return data if found is None else found.make(data)

    def instead(self, name: str, data: Any, error: Any) -> list[bytes]:
        """What is said in place of a response."""
        assert self.answers is not None
        return [base.encode(record) for record in self.answers.make(name, data, error)]

    # From the client.

    def kind(self, name: str) -> type[commands.Command] | None:
        """The command of that name, if this dialect has it."""
        found = self.names.get(name) or COMMANDS.get(name)
        return None if found in self.lacks else found

    def filled(self, command: commands.Command) -> commands.Command:
        """With what a client of this dialect means by saying nothing."""
        silent = {
            name: value for name, value in self.fills.get(type(command), {}).items() if getattr(command, name) is None
        }
        return base.replace(command, **silent) if silent else command

    # About itself.

    def commands(self) -> dict[str, type[commands.Command]]:
        """Every name that a client may use."""
        ours = {name: kind for name, kind in COMMANDS.items() if kind not in self.lacks}
        return {**ours, **self.names}

    def spoken(self) -> list[Any]:
        """Every kind of event that a client may hear."""
        heard = [made for kind in EVENTS for made in (self.events[kind].makes if kind in self.events else (kind,))]
        return list(dict.fromkeys([*heard, *(self.answers.makes if self.answers else ())]))
