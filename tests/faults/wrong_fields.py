"""Every field of every command, with every wrong type and every unknown word: made from the records of the commands.

A command that is new is among them by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from support.rpc_process import Agent, Json
from tau.records.base import Record, UnsetType
from tau.records.commands import AnyCommand, HostTool, ImageGiven


class Wrong(NamedTuple):
    """A command that is right but for `field`."""

    command: Json
    field: str

    def ask(self, agent: Agent) -> Json:
        response = agent.ask(**{"kind" if key == "type" else key: value for key, value in self.command.items()})
        assert response["command"] == self.command["type"]
        return response

    def is_refused(self, response: Json) -> bool:
        return not response["success"] and self.field in response["error"]


SAMPLES: dict[str, Any] = {
    "message": "hello",
    "provider": "scripted",
    "modelId": "scripted",
    "command": "true",
    "sessionPath": "nowhere.jsonl",
    "entryId": "00000000",
    "name": "a name",
    "images": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}],
}
HOST_TOOL: Json = {"name": "a_name", "description": "something", "parameters": {"type": "object"}}
JSON_KINDS: dict[Any, Any] = {str: "bogus", int: 5, float: 1.5, bool: True, list: [5], dict: {"type": 5}, None: None}


def flat(hint: Any) -> list[Any]:
    """The members of a union; of anything else, itself."""
    return [one for part in get_args(hint) for one in flat(part)] if get_origin(hint) in (Union, UnionType) else [hint]


def wrong_values(hint: Any) -> list[Any]:
    """One value of every JSON kind that `hint` does not take; for an enumeration also unknown words."""
    if Any in flat(hint):
        return []
    takes: set[Any] = set()
    words: list[Any] = []
    for one in flat(hint):
        if get_origin(one) is Literal:
            words += ["bogus", "", str(get_args(one)[0]).upper(), f"{get_args(one)[0]} "]
            takes.add(str)
        elif one is type(None):
            takes.add(None)
        elif get_origin(one) is list:
            takes.add(list)
        elif isinstance(one, type) and issubclass(one, Record):
            takes.add(dict)
        else:
            takes |= {float, int} if one is float else {one}
    return [value for kind, value in JSON_KINDS.items() if kind not in takes] + words


def sample(hint: Any, name: str) -> Any:
    if name in SAMPLES:
        return SAMPLES[name]
    first = next(one for one in flat(hint) if one is not UnsetType)
    return get_args(first)[0] if get_origin(first) is Literal else True if first is bool else "something"


def shape(record: type[Record]) -> dict[str, Any]:
    hints = get_type_hints(record)
    names = zip(record.__struct_fields__, record.__struct_encode_fields__, strict=True)
    return {wire: hints[name] for name, wire in names}


def wrongs() -> Iterator[Wrong]:
    for record in get_args(AnyCommand):
        fields = shape(record)
        required = list(fields)[: len(fields) - len(record.__struct_defaults__)]
        right = {"type": record.__struct_config__.tag, **{name: sample(fields[name], name) for name in required}}
        for name in required:
            yield Wrong({key: value for key, value in right.items() if key != name}, name)
        for name, hint in fields.items():
            for value in wrong_values(hint):
                yield Wrong({**right, name: value}, name)
        for name, hint in fields.items():
            if (inside := record_in(hint)) is not None:
                for place, item in wrong_images() if inside is ImageGiven else wrong_items(inside):
                    yield Wrong({**right, name: [right_item(inside), item]}, f"{name}[1]{place}")


def record_in(hint: Any) -> type[Record] | None:
    """The record that a field has a list of."""
    lists = [get_args(one)[0] for one in flat(hint) if get_origin(one) is list]
    return next((one for one in lists if isinstance(one, type) and issubclass(one, Record)), None)


def right_item(record: type[Record]) -> Json:
    if record is ImageGiven:
        return dict(SAMPLES["images"][0])
    if record is HostTool:
        return dict(HOST_TOOL)
    fields = shape(record)
    required = list(fields)[: len(fields) - len(record.__struct_defaults__)]
    return {name: sample(fields[name], name) for name in required}


def wrong_items(record: type[Record]) -> Iterator[tuple[str, Any]]:
    """One of a list of records: something else altogether, without a field that it needs, or with a wrong one."""
    for value in (None, 5, "bogus", [5], True):
        yield "", value
    right = right_item(record)
    if record is HostTool:
        right["name"] = "other"
    for name in right:
        yield f".{name}", {key: value for key, value in right.items() if key != name}
    for name, hint in shape(record).items():
        for value in wrong_values(hint):
            yield f".{name}", {**right, name: value}


def wrong_images() -> Iterator[tuple[str, Any]]:
    for value in (None, 5, "bogus", [5], True):
        yield "", value
    new: Json = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    old: Json = {"type": "image", "source": {"type": "base64", "data": "aGk=", "mediaType": "image/png"}}
    fields = shape(ImageGiven)
    for name in new:
        yield f".{name}", {key: value for key, value in new.items() if key != name}
        for value in wrong_values(fields[name]):
            yield f".{name}", {**new, name: value}
    for value in wrong_values(fields["source"]):
        if not isinstance(value, dict):
            yield ".source", {"type": "image", "source": value}
    for name in old["source"]:
        source = dict(old["source"])
        del source[name]
        yield f".source.{name}", {"type": "image", "source": source}
        for wrong in (None, 5, 1.5, True, [5], {"type": 5}):
            yield f".source.{name}", {"type": "image", "source": {**old["source"], name: wrong}}


CASES = list(wrongs())
