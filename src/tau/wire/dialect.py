"""A protocol dialect: tables of its differences to the protocol that tau uses internally.

Internally, tau uses a superset of all versions. At the edge, a dialect omits a type of event or converts it to
another record; events without an entry are sent unchanged, without further lookups. So the default costs nothing, and
the records in the tables are also the source of the dialect's schema.

    event_lines     to the client     events; `events` (and `json_events` in JSON mode) has the conversions
    update          to the client     streamed deltas: with the message so far, or without it
    reply_data      to the client     the data of a response
    substitute      to the client     events in place of responses, where a dialect has none
    command_type    from the client   the command for a name
    fill_defaults   from the client   values for fields that the client omits

No other code asks which dialect is in use. Where a dialect changes the behaviour of the program, it changes the
default of a setting (`defaults`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, get_args

from tau.records import base, commands, events
from tau.records.base import UNSET, Record, Value, derive_record, field, replace
from tau.records.events import Event, event_json


class Form(Value):
    """Conversion of one event or reply: the record types it may produce, and the function that makes them."""

    makes: tuple[Any, ...]
    make: Callable[[Any], Any]


class ResponseEvents(Value):
    """Events in place of responses, made from the name of the command, its data and its error."""

    makes: tuple[Any, ...]
    make: Callable[[str, Any, Any], Sequence[Record]]


OMITTED = Form((), lambda event: ())
NO_DATA = Form((), lambda data: UNSET)
COMMANDS: dict[str, type[commands.Command]] = {
    str(kind.__struct_config__.tag): kind for kind in get_args(commands.AnyCommand)
}
EVENTS: tuple[type[Event], ...] = get_args(events.AnyEvent)


def form(wanted: Any, renamed: Mapping[str, str] | None = None) -> Form:
    """Convert an event to the record type `wanted`, which has a subset of its fields; `renamed` maps changed names."""
    by_wire_name = {wire_name: name for name, wire_name in (renamed or {}).items()}
    names = [by_wire_name.get(name, name) for name in wanted.__struct_fields__]
    return Form((wanted,), lambda event: (wanted(*[getattr(event, name) for name in names]),))


def without(kind: type[Record], *names: str) -> Form:
    """The same event with fewer fields."""
    return form(derive_record(kind, without=names))


def reply_without(kind: type[Record], *names: str) -> Form:
    """The same for the data of a response."""
    fewer = form(derive_record(kind, without=names))
    return Form(fewer.makes, lambda data: fewer.make(data)[0] if isinstance(data, kind) else data)


class Dialect(Value, dict=True):
    name: str
    about: str
    pi: str  # the release of pi with this protocol: the output of `pi --version`
    snapshots: bool = True  # message_update contains the message so far, twice
    usage: bool = True  # message_update contains `usage`
    tool_names: bool = True  # toolcall_start contains the id and the name of the tool
    responses: bool = True
    dialogs: bool = True  # clients support `extension_ui_request`
    session_line: bool = True  # JSON mode starts with the session header
    events: Mapping[type[Event], Form] = field(default_factory=dict)
    json_events: Mapping[type[Event], Form] = field(default_factory=dict)
    replies: Mapping[type[commands.Command], Form] = field(default_factory=dict)
    answers: ResponseEvents | None = None
    lacks: frozenset[type[commands.Command]] = frozenset()
    names: Mapping[str, type[commands.Command]] = field(default_factory=dict)  # older names of commands
    fills: Mapping[type[commands.Command], Mapping[str, Any]] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)  # in the format of a settings file

    def derive(self, name: str, about: str, pi: str, **changes: Any) -> Dialect:
        """A dialect that differs from this one: tables are merged, and entries in `changes` win.

        Groups of settings in `defaults` are merged too.
        """
        merged: dict[str, Any] = {
            key: {**getattr(self, key), **value} if isinstance(value, dict) else value for key, value in changes.items()
        }
        for group, settings in changes.get("defaults", {}).items():
            if isinstance(settings, dict):
                merged["defaults"][group] = {**self.defaults.get(group, {}), **settings}
        return replace(self, name=name, about=about, pi=pi, **merged)

    @cached_property
    def update_options(self) -> dict[str, bool]:
        """The arguments for `Update.wire_json`."""
        return {"snapshots": self.snapshots, "usage": self.usage, "tool_names": self.tool_names}

    def event_lines(self, event: Event) -> list[bytes]:
        """The JSON lines for an event, without newlines; usually one, sometimes none."""
        form = self.events.get(type(event))
        if form is None:
            return [event_json(event)]
        return [event_json(made) for made in form.make(event)]

    def event_records(self, event: Any) -> Sequence[Any]:
        """The same as records, for events that may be replaced while they are queued."""
        form = self.events.get(type(event))
        return (event,) if form is None else form.make(event)

    def for_json(self) -> Dialect:
        """This dialect for JSON mode."""
        return replace(self, events={**self.events, **self.json_events}, json_events={}) if self.json_events else self

    def reply_data(self, kind: type[commands.Command], data: Any) -> Any:
        """The data of a response: a record, None for null, UNSET to omit it."""
        form = self.replies.get(kind)
        return data if form is None else form.make(data)

    def substitute(self, name: str, data: Any, error: Any) -> list[bytes]:
        """The JSON lines in place of a response."""
        assert self.answers is not None
        return [base.encode(record) for record in self.answers.make(name, data, error)]

    def command_type(self, name: str) -> type[commands.Command] | None:
        """The command with this name, if the dialect has it."""
        return self.command_types.get(name)

    def fill_defaults(self, command: commands.Command) -> commands.Command:
        """Set fields that the client omitted to the values that this dialect implies."""
        fills = self.fills.get(type(command))
        if fills is None:
            return command
        implied = {name: value for name, value in fills.items() if getattr(command, name) is None}
        return base.replace(command, **implied) if implied else command

    @cached_property
    def command_types(self) -> dict[str, type[commands.Command]]:
        """The commands by all names that a client may use."""
        return {name: kind for name, kind in {**COMMANDS, **self.names}.items() if kind not in self.lacks}

    def event_types(self) -> list[Any]:
        """All types of events that a client may receive."""
        types = [made for kind in EVENTS for made in (self.events[kind].makes if kind in self.events else (kind,))]
        return list(dict.fromkeys([*types, *(self.answers.makes if self.answers else ())]))
